import { TargetError } from "../target-error.ts";
import type { Applier, Assignment, Permit } from "./driver.ts";

/**
 * Applies a value and verifies that it is in use; answers another one where the target makes its own. A value that was
 * applied and is refused then gives way to the one before, where the driver can see to that. Throws a TargetError.
 */
export async function rotate(applier: Applier, assignment: Assignment, permit: Permit): Promise<string | undefined> {
  const minted = await applier.apply(assignment, permit);
  // What the target made is in use there: if it did not come back, nobody would know it.
  if (minted !== undefined) return minted;
  try {
    await applier.verify(assignment, permit);
  } catch (error) {
    if (!(error instanceof TargetError)) throw error;
    const isReverted = error.code === "refused" && (await revert(applier, assignment, permit));
    throw notVerified(error, isReverted);
  }
  return undefined;
}

async function revert(applier: Applier, assignment: Assignment, permit: Permit): Promise<boolean> {
  try {
    return (await applier.revert?.(assignment, permit)) ?? false;
  } catch (error) {
    if (!(error instanceof TargetError)) throw error;
    return false;
  }
}

/** Whatever verifying did, the target is no longer as it was, unless the value before was put back. */
function notVerified(error: TargetError, isReverted: boolean): TargetError {
  const { code, message, permanent, retryAfterMs } = error;
  const now = isReverted ? "; the value before was put back" : "";
  const options = { permanent, retryAfterMs, unchanged: isReverted, cause: error };
  return new TargetError(code, `the value was applied, but is not in use: ${message}${now}`, options);
}
