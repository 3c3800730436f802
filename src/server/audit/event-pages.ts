import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { Queries } from "../db/database.ts";
import { Conditions } from "../db/page.ts";
import { type EventRow, eventFields } from "./event-rows.ts";

const rowsOfPage = 1000;

/** What a caller selects events by; all that are given must hold. */
export interface EventFilter {
  /** One action, or all of a resource, as in "secret.*". */
  readonly action?: string | undefined;
  readonly actorId?: string | undefined;
  readonly resourceType?: string | undefined;
  readonly resourceId?: string | undefined;
  readonly projectId?: string | undefined;
  readonly outcome?: string | undefined;
  readonly requestId?: string | undefined;
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
  /** Part of the resource's name. */
  readonly search?: string | undefined;
}

/** Conditions on audit_event, as `a`: those of the filter, within the projects unless they are all. */
export function conditionsOf(filter: EventFilter, organizationId: string, projectIds?: readonly string[]): Conditions {
  const { action = "", from, to } = filter;
  const where = new Conditions()
    .add("a.organization_id = ?", organizationId)
    .add("a.project_id = any(?)", projectIds)
    .add("a.actor_id = ?", filter.actorId)
    .add("a.resource_type = ?", filter.resourceType)
    .add("a.resource_id = ?", filter.resourceId)
    .add("a.project_id = ?", filter.projectId)
    .add("a.outcome = ?", filter.outcome)
    .add("a.request_id = ?", filter.requestId)
    .add("a.occurred_at >= ?", from && timestampDate(from))
    .add("a.occurred_at < ?", to && timestampDate(to))
    .contains("a.resource_name", filter.search);
  if (action.endsWith(".*")) where.add("starts_with(a.action, ?)", action.slice(0, -1));
  else if (action !== "") where.add("a.action = ?", action);
  return where;
}

interface PageRow extends EventRow {
  readonly found: boolean | null;
  readonly lastChain: number;
  readonly lastSequence: number;
  readonly lastTime: string;
}

/**
 * All events that `where` selects by chain and sequence, in pages. A statement looks at so many rows, however few it
 * selects, and so is done within the time limit of statements; of months outside the two times it looks at none.
 */
export async function* pagesInOrder(
  queries: Queries,
  where: Conditions,
  organizationId: string,
  { from, to }: Pick<EventFilter, "from" | "to"> = {},
): AsyncGenerator<EventRow[]> {
  const values = [...where.values];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const looked = [`a.organization_id = ${bind(organizationId)}`];
  if (from !== undefined) looked.push(`a.occurred_at >= ${bind(startOfMonth(timestampDate(from)))}`);
  if (to !== undefined) looked.push(`a.occurred_at < ${bind(endOfMonth(timestampDate(to)))}`);
  const [chain, sequence, time] = [1, 2, 3].map((each) => `$${values.length + each}`);
  const statement = `
    with page as materialized (
      select a.* from audit_event a
      where ${looked.join(" and ")} and (a.chain, a.sequence, a.occurred_at) > (${chain}, ${sequence}, ${time}::timestamptz)
      order by a.chain, a.sequence, a.occurred_at limit ${rowsOfPage})
    select last.*, a.* from (
      select chain as "lastChain", sequence as "lastSequence", occurred_at::text as "lastTime" from page
      order by chain desc, sequence desc, occurred_at desc limit 1) last
    left join lateral (select true as found, ${eventFields} from page a where ${where.text}) a on true
    order by a.chain, a.sequence, a."occurredAt"`;
  let after: readonly unknown[] = [-(2 ** 31), 0, "-infinity"];
  for (;;) {
    const rows = await queries.query<PageRow>(statement, [...values, ...after]);
    const [last] = rows;
    if (last === undefined) return;
    after = [last.lastChain, last.lastSequence, last.lastTime];
    yield rows.filter(({ found }) => found === true);
  }
}

const startOfMonth = (time: Date) => new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth()));

/** The start of the next month, unless the time is itself the start of one. */
function endOfMonth(time: Date): Date {
  const start = startOfMonth(time);
  return start < time ? new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1)) : start;
}
