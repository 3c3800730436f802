import type { DescMethod, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { type Call, callIn } from "./call.ts";
import type { Service } from "./doors.ts";

/** What a method waits for before its transaction opens, since a transaction waits for nobody outside. */
export type Preparation = (message: never, call: Call, signal: AbortSignal) => Promise<unknown>;

/**
 * Prepares the calls of methods that say what they wait for. The method finds it in `call.prepared`, or throws what the
 * preparation threw: a call whose outcome is replayed needs neither.
 */
export function preparing(services: readonly Service[]): Interceptor {
  const preparations = new Map<DescMethod, (message: Message, call: Call, signal: AbortSignal) => Promise<unknown>>();
  for (const { descriptor, preparations: declared = {} } of services) {
    for (const [name, prepare] of Object.entries(declared)) {
      const method = descriptor.method[name];
      if (method === undefined) throw new Error(`${descriptor.typeName} has no method ${name} to prepare`);
      preparations.set(method, prepare as never);
    }
  }
  return (next) => async (request) => {
    const prepare = preparations.get(request.method);
    if (prepare !== undefined && !request.stream) {
      const call = callIn(request);
      call.prepared = prepare(request.message, call, request.signal);
      await call.prepared.catch(() => {});
    }
    return next(request);
  };
}
