import { type ServiceError, status } from "@grpc/grpc-js";

/** Codes by which a server refuses what was asked, and is well otherwise. */
const refusals: ReadonlySet<unknown> = new Set([
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.ALREADY_EXISTS,
  status.FAILED_PRECONDITION,
  status.ABORTED,
  status.OUT_OF_RANGE,
  status.UNIMPLEMENTED,
  status.INTERNAL,
  status.RESOURCE_EXHAUSTED,
]);

/** Whether a call failed for a reason of its own; else so would others over that connection. */
export const concernsOneCall = (error: unknown): boolean => refusals.has((error as Partial<ServiceError>).code);
