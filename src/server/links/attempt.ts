import { untilAborted } from "../../outbound/until-aborted.ts";
import { TargetError } from "../../targets/target-error.ts";
import { Refusal } from "../errors.ts";
import { SealBroken } from "../seal/cipher.ts";

/** For all of an attempt, whatever it takes (gaps 4.2). */
const longestAttemptMs = 30_000;

/**
 * Does what reaches a place, within the time of an attempt; also of work that does not listen to its signal, nothing is
 * waited for any longer. Throws a TargetError, and what `signal` is aborted with.
 */
export async function attempt(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
  const timeout = AbortSignal.timeout(longestAttemptMs);
  const either = AbortSignal.any([signal, timeout]);
  try {
    either.throwIfAborted();
    await untilAborted(either, work(either));
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) throw new TargetError("timed_out", `no confirmation within ${longestAttemptMs / 1000} s`);
    throw asTargetError(error);
  }
}

/** What went wrong, in words for whoever made the link; nothing in them comes from what was sealed. */
function asTargetError(error: unknown): TargetError {
  if (error instanceof TargetError) return error;
  const options = { unchanged: true, cause: error };
  if (error instanceof SealBroken) return new TargetError("invalid", "what was sealed cannot be opened", options);
  if (error instanceof Refusal && error.errorCode === "SERVICE_UNAVAILABLE")
    return new TargetError("unreachable", error.rawMessage, options);
  return new TargetError("invalid", "an unexpected error occurred", { cause: withoutWords(error as Error) });
}

/** A fault of the program, for the log: of what it says, nobody knows whether it is secret. */
function withoutWords({ name, stack = "" }: Error): Error {
  const frames = stack.split("\n").filter((line) => line.startsWith("    at "));
  return Object.assign(new Error("not repeated here"), { name, stack: frames.join("\n") });
}
