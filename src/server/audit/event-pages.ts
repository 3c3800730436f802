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

/** A page in which nothing is selected has one row, with nothing found. */
interface PageRow extends EventRow {
  readonly found: boolean | null;
  /** The last place that was looked at, as JSON: chain, sequence, time, and whether the page was full. */
  readonly place: string;
}

/** A place, and whether its page was full: otherwise its chain ends there. */
type After = readonly unknown[];

const smallest = -(2 ** 31);
const beforeAll: After = [smallest, smallest, "-infinity", false];

/**
 * All events that `where` selects by chain and sequence, in pages. A statement looks at so many rows, however few it
 * selects, and so is done within the time limit of statements; of months outside the two times it looks at none. The
 * next page is read while the caller has the one before.
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
  const [chain, sequence, time, isFull] = [1, 2, 3, 4].map((each) => `$${values.length + each}`);
  const rowsOf = `from audit_event a where ${looked.join(" and ")}`;
  // A page is of one chain: over several, PostgreSQL would expect as many rows as the rest of the log has, and sort them.
  const statement = `
    with page as materialized (
      select a.* ${rowsOf} and a.chain = case when ${isFull}::boolean then ${chain}::int
          else (select min(a.chain) ${rowsOf} and a.chain > ${chain}) end
        and (a.sequence, a.occurred_at) > (
          case when ${isFull} then ${sequence} else ${smallest} end,
          case when ${isFull} then ${time}::timestamptz else '-infinity' end)
      order by a.sequence, a.occurred_at limit ${rowsOfPage})
    select last.place, a.* from (
      select json_build_array(chain, sequence, occurred_at::text, (select count(*) from page) = ${rowsOfPage})::text as place
      from page
      order by sequence desc, occurred_at desc limit 1) last
    left join lateral (select true as found, ${eventFields} from page a where ${where.text}) a on true
    order by a.chain, a.sequence, a."occurredAt"`;
  const read = (place: After) => {
    const rows = queries.query<PageRow>(statement, [...values, ...place]);
    // Read ahead, it may fail before anybody waits for it, or when nobody does any more.
    rows.catch(() => {});
    return rows;
  };
  let after = beforeAll;
  let next = read(after);
  for (;;) {
    const rows = await next;
    const [last] = rows;
    const wasFull = after[3] === true;
    if (last === undefined && !wasFull) return;
    // Nothing after a full page means that its chain ended with it.
    after = last === undefined ? [...after.slice(0, 3), false] : JSON.parse(last.place);
    next = read(after);
    yield rows.filter(({ found }) => found === true);
  }
}

const startOfMonth = (time: Date) => new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth()));

/** The start of the next month, unless the time is itself the start of one. */
function endOfMonth(time: Date): Date {
  const start = startOfMonth(time);
  return start < time ? new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1)) : start;
}
