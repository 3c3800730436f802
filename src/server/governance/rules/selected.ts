import type { ViolationJson } from "../report-json.ts";
import { type Evidence, failed, mostListed, notApplicable, type Outcome, passed } from "./rule.ts";

/** SQL for rows of (resource_type, resource_id, name, actual, violates): those that a rule is about. $1 is the organization. */
interface Selected {
  readonly select: string;
  /** $2 and so on. */
  readonly values?: readonly unknown[];
  /** What the rows are, and what is wrong with those that violate, as in "secrets" and "exceed 90 days". */
  readonly things: string;
  readonly fault: string;
}

/** Counts the rows and those that violate the rule, and lists the first of these, in one statement. */
export async function checkSelected(
  { queries, organization }: Evidence,
  { select, values = [], things, fault }: Selected,
): Promise<Outcome> {
  const [found] = await queries.query<{ checked: number; count: number; violations: ViolationJson[] }>(
    `with subject as materialized (${select})
     select count(*)::int as checked, count(*) filter (where violates)::int as count,
       coalesce((select json_agg(first) from (
         select resource_type, resource_id, name, actual from subject
         where violates order by name collate "C", resource_id limit ${mostListed}) first), '[]') as violations
     from subject`,
    [organization.id, ...values],
  );
  const { checked, count, violations } = found ?? { checked: 0, count: 0, violations: [] };
  if (checked === 0) return notApplicable(`there are no ${things}`);
  const message = `${count} of ${checked} ${things} ${fault}`;
  return count === 0 ? passed(checked, message) : failed(checked, message, violations, count);
}

/** SQL for a whole number of days in words. */
export const daysInWords = (count: string) => `${count} || case ${count} when 1 then ' day' else ' days' end`;
