import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";

export type { Assignment };

/** Leave to go on with a task, which may end at any time. */
export interface Permit {
  /** Aborted at the end: what runs is to be stopped. */
  readonly signal: AbortSignal;
  /** Throws when it has ended, also when nobody could be told yet: to be called right before what has effects. */
  check(): void;
}

/**
 * Brings values to where they are used. Both methods reject with a DriverError, and soon when the permit ends; a task may
 * come again with the same value, so that applying it twice must be the same as once.
 */
export interface Driver {
  /** Makes the value the one that is used; answers another one where the target makes its own. */
  apply(assignment: Assignment, permit: Permit): Promise<string | undefined>;
  /** Rejects unless the value is in use, and changes nothing. */
  verify(assignment: Assignment, permit: Permit): Promise<void>;
}

/** Why a driver failed, for people. What is secret of the assignment is taken out of the message before anybody sees it. */
export class DriverError extends Error {
  /** Whether trying again would end the same. */
  readonly permanent: boolean;

  constructor(message: string, { permanent = false, cause }: { permanent?: boolean; cause?: unknown } = {}) {
    super(message, { cause });
    this.permanent = permanent;
  }
}
