import type { Permit } from "../../targets/drivers/driver.ts";
import { failureMessage } from "../../targets/drivers/failure-message.ts";
import { rotate } from "../../targets/drivers/rotate.ts";
import { TargetError, type TargetErrorCode } from "../../targets/target-error.ts";
import type { Core } from "../context.ts";
import { Overdue } from "./attempt-permit.ts";
import { driverNamed } from "./providers.ts";
import type { Attempt, AttemptOutcome } from "./server-attempt.ts";

/** Brings the candidate of an attempt to its target, and answers once it is in use there. Throws nothing. */
export async function applyCandidate(
  { driverName, assignment }: Attempt,
  { outbound, logger }: Pick<Core, "logger" | "outbound">,
  permit: Permit,
): Promise<AttemptOutcome> {
  try {
    const applier = driverNamed(driverName).open?.({ outbound });
    if (applier === undefined) throw new Error(`the server cannot apply anything by ${driverName}`);
    return { value: (await rotate(applier, assignment, permit)) ?? assignment.value };
  } catch (error) {
    const { code, message, unchanged } = failureOf(error, permit, logger);
    return { code, message: failureMessage(message, assignment), unchanged };
  }
}

function failureOf(error: unknown, { signal }: Permit, logger: Core["logger"]) {
  if (error instanceof TargetError) {
    const { code, message, unchanged } = error;
    return { code: codeOf(code), message, unchanged };
  }
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (signal.aborted || reason instanceof Overdue) {
    return { code: "timed_out" as const, message: (reason as Error).message, unchanged: false };
  }
  // A fault of the program: of what it says, nobody knows whether it is secret.
  const { name, stack } = error as Error;
  const frames = stack?.split("\n").filter((line) => line.startsWith("    at "));
  logger.error({ type: name, stack: frames?.join("\n") }, "a driver failed unexpectedly");
  return { code: "refused" as const, message: `unexpected: ${name}`, unchanged: false };
}

/** No driver finds what belongs to somebody else. */
const codeOf = (code: TargetErrorCode) => (code === "foreign" ? "refused" : code);
