/** Why a place outside could not be changed, in one word for programs. */
export type TargetErrorCode = "refused" | "unreachable" | "timed_out" | "foreign" | "invalid";

interface TargetErrorOptions {
  readonly permanent?: boolean;
  readonly unchanged?: boolean;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** Why a place outside could not be changed, for people. The message holds nothing secret: no value, no credential. */
export class TargetError extends Error {
  readonly code: TargetErrorCode;
  /** Whether trying again would end the same. */
  readonly permanent: boolean;
  /** Whether the place is certainly as it was before. */
  readonly unchanged: boolean;
  /** How long the place asks to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(code: TargetErrorCode, message: string, options: TargetErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.permanent = options.permanent ?? false;
    this.unchanged = options.unchanged ?? false;
    this.retryAfterMs = options.retryAfterMs;
  }
}
