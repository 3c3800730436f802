import type { Queries } from "../../db/database.ts";
import type { Facts } from "../facts.ts";
import type { OwnPolicies } from "../own-policies.ts";
import type { ResultJson, ViolationJson } from "../report-json.ts";

/** What rules are checked against. */
export interface Evidence {
  readonly queries: Queries;
  readonly organization: OwnPolicies;
  readonly facts: Facts;
}

/** What was found of a rule. */
export type Outcome = Omit<ResultJson, "required" | "rule">;

type Check<Group, Required> = (required: Required, evidence: Evidence, group: Group) => Outcome | Promise<Outcome>;

/** The rules of a group: one for each field, which is told what the report requires, and what it says beside that. */
export type Rules<Group> = {
  readonly [Field in keyof Group]-?: Check<Group, NonNullable<Group[Field]>>;
};

/** So many violations are listed; all are counted. */
export const mostListed = 100;

/** `checked` counts what was looked at. */
export const passed = (checked: number, message: string): Outcome => ({
  status: "passed",
  checked,
  violation_count: 0,
  message,
  violations: [],
});

/** The first of the violations, by their names, of which there are `count` in all. */
export const failed = (
  checked: number,
  message: string,
  violations: readonly ViolationJson[],
  count = violations.length,
): Outcome => ({ status: "failed", checked, violation_count: count, message, violations });

/** There is nothing to check. */
export const notApplicable = (message: string): Outcome => ({ ...passed(0, message), status: "not_applicable" });

/** Nobody here can know; the message says why. */
export const notEvaluated = (message: string): Outcome => ({ ...passed(0, message), status: "not_evaluated" });

/** Of a field that asks for nothing: false, 0 or an empty list. */
export const nothingRequired = () => notApplicable("nothing is required");

/** A lower and an upper bound that nothing can keep at once: both fail (G-14.1). Undefined when they agree. */
export function contradiction(min: [name: string, value: number | undefined], max: typeof min): Outcome | undefined {
  const [[minName, least], [maxName, most]] = [min, max];
  if (least === undefined || most === undefined || least <= most) return undefined;
  return failed(0, `${minName} ${least} is greater than ${maxName} ${most}: nothing can be both`, []);
}

export const days = (count: number) => (count === 1 ? "1 day" : `${count} days`);
