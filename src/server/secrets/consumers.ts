import { millis } from "../db/columns.ts";
import { inTransaction, run } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import type { Call } from "../wire/call.ts";

/** How far back consumers are looked for: so many days, and so many of the newest events of the secret. */
const mostDays = 90;
const mostEvents = 20_000;

/** What says that somebody uses a value: that they got it, or asked whether the one that they have is still current. */
const readings = ["secret.read_value", "secret.check"];

interface Selection {
  readonly version?: number | undefined;
  readonly page?: number | undefined;
  readonly perPage?: number | undefined;
}

interface ConsumerRow {
  readonly actor_type: string;
  readonly actor_id: string;
  readonly actor_name: string | null;
  readonly version: number;
  readonly last_read_at: number;
  readonly reads: number;
}

/**
 * Bounded are the events of whatever kind, so that neither a million reads nor as many of anything else take longer. Of
 * somebody who was renamed, or has another role now, the newest event says who they were.
 */
const statement = `
  with event as materialized (
    select action, outcome, actor_type, actor_id, actor_name, details, occurred_at from audit_event
    where organization_id = $1 and resource_id = $2 and occurred_at >= now() - make_interval(days => ${mostDays})
    order by occurred_at desc limit ${mostEvents}),
  consumer as materialized (
    select actor_id, version, max(occurred_at) as last_read_at, count(*)::int as reads,
      (array_agg(actor_type order by occurred_at desc))[1] as actor_type,
      (array_agg(actor_name order by occurred_at desc))[1] as actor_name
    from (select *, (details::json ->> 'version')::int as version from event
          where action = any($3::text[]) and outcome = 'success' and actor_id is not null
          offset 0) reading
    where $4::int is null or version = $4
    group by actor_id, version)
  select t.total, p.* from (select count(*)::int as total from consumer) t
  left join lateral (
    select true as found, actor_type, actor_id, actor_name, version, ${millis("last_read_at")} as last_read_at, reads
    from consumer c order by c.last_read_at desc, actor_id, version desc limit $5 offset $6
  ) p on true
  order by p.last_read_at desc, p.actor_id, p.version desc`;

/** Who read which version of a secret by what the audit log knows, the newest reads first. */
export async function listConsumers(call: Call, secretId: string, selection: Selection) {
  const { version = null, page = 1, perPage = 25 } = selection;
  const { organizationId } = call.caller;
  const rows = await inTransaction(call.em, async () => {
    // A plan for whatever secret comes expects few events, and would sort a million; the index has them in their order.
    await run(call.em, "set local enable_sort = off", []);
    const values = [organizationId, secretId, readings, version, perPage, (page - 1) * perPage];
    return run<ConsumerRow & { total: number; found: boolean | null }>(call.em, statement, values);
  });
  const total = rows[0]?.total ?? 0;
  return { data: rows.filter(({ found }) => found === true).map(answer), pagination: { page, perPage, total } };
}

const answer = (row: ConsumerRow) => ({
  actorType: row.actor_type,
  actorId: row.actor_id,
  actorName: row.actor_name ?? undefined,
  version: row.version,
  lastReadAt: timestampOf(row.last_read_at),
  reads: row.reads,
});
