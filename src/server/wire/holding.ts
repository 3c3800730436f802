import type { DescMethod, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { conflict, unavailable } from "../errors.ts";
import { LockHeld, type Locks, LockUnavailable } from "../lock/lock.ts";
import { type Call, callIn } from "./call.ts";
import type { Service } from "./doors.ts";

/** What a method holds while it runs, so that of several who call it at once on any replica one does and no other waits. */
export interface Exclusion {
  /** As in "environment:…:production". */
  name(message: never, call: Call): string;
  /** What the others are told. */
  readonly refusal: string;
}

/** Lets the calls of methods that exclude each other take the lock before their transaction opens, and keep it until it has ended. */
export function holding(services: readonly Service[], locks: Pick<Locks, "hold">): Interceptor {
  const exclusions = new Map<DescMethod, { name(message: Message, call: Call): string; refusal: string }>();
  for (const { descriptor, exclusions: declared = {} } of services) {
    for (const [name, exclusion] of Object.entries(declared)) {
      const method = descriptor.method[name];
      if (method === undefined) throw new Error(`${descriptor.typeName} has no method ${name} that excludes others`);
      exclusions.set(method, exclusion);
    }
  }
  return (next) => async (request) => {
    const exclusion = exclusions.get(request.method);
    if (exclusion === undefined || request.stream) return next(request);
    try {
      return await locks.hold(exclusion.name(request.message, callIn(request)), () => next(request));
    } catch (error) {
      if (error instanceof LockHeld) throw conflict(exclusion.refusal);
      if (error instanceof LockUnavailable) throw unavailable("the lock service cannot be reached", error);
      throw error;
    }
  };
}
