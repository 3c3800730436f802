import { RE2JS, RE2JSException } from "re2js";
import { type FieldFault, invalid } from "../errors.ts";
import type { ReportJson } from "./report-json.ts";

/**
 * Of all patterns together, as their compiled programs count them: that times the length of a name is what it takes to
 * match it. A usual pattern has a hundred, and `\pL{1000}` a thousand.
 */
const mostInstructions = 20_000;

/** Refuses a report with patterns that are not of the syntax of RE2, or that would take long to match. */
export function checkPatterns({ naming_policy: policy = {} }: ReportJson): void {
  const faults: FieldFault[] = [];
  let instructions = 0;
  for (const [list, patterns] of Object.entries(policy) as [string, readonly string[]][]) {
    for (const [index, pattern] of patterns.entries()) {
      const field = `naming_policy.${list}[${index}]`;
      const size = sizeOf(pattern);
      if (size === undefined) faults.push({ field, message: "must be a regular expression in the syntax of RE2" });
      else instructions += size;
      if (instructions <= mostInstructions) continue;
      // The others are not compiled any more, which is what takes long.
      throw invalid([...faults, { field, message: "is too large, together with the patterns before it" }]);
    }
  }
  if (faults.length > 0) throw invalid(faults);
}

function sizeOf(pattern: string): number | undefined {
  try {
    return RE2JS.compile(pattern).programSize();
  } catch (error) {
    if (error instanceof RE2JSException) return undefined;
    throw error;
  }
}
