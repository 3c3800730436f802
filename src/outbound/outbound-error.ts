interface OutboundErrorOptions {
  readonly unsent?: boolean;
  readonly cause?: unknown;
}

/** In one word for programs; what is invalid would be so with another try. */
export type OutboundErrorCode = "invalid" | "unreachable" | "timed_out";

/** Why there was no connection, or no answer. The message names neither the URL nor what was sent. */
export class OutboundError extends Error {
  readonly code: OutboundErrorCode;
  /** Whether the other side has certainly been told nothing: there was no connection yet, or nothing sent over it. */
  readonly unsent: boolean;

  constructor(code: OutboundErrorCode, message: string, { unsent = false, cause }: OutboundErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.unsent = unsent;
  }

  /** Whether trying again would end the same. */
  get permanent(): boolean {
    return this.code === "invalid";
  }
}
