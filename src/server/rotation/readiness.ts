import { type EntityManager, type Queries, run } from "../db/database.ts";
import type { EnvironmentReadiness } from "../gateways/gateway-work.ts";
import type { Timing } from "../gateways/timing.ts";
import { isActive } from "./config-row.ts";
import { standsBy } from "./standby.ts";

/** How a check ended: with an error, or without one where the configuration works. */
interface Checked {
  readonly id: string;
  readonly organizationId: string;
  readonly error: string | null;
}

/**
 * Notes what standby gateways found out. What was changed after a check had begun says nothing of how it is now, nor does
 * what is being changed or deleted at this moment: that is waited for.
 */
export async function noteChecks(em: EntityManager, checks: readonly Checked[]): Promise<void> {
  if (checks.length === 0) return;
  await run(
    em,
    `insert into gateway_readiness as r (gateway_id, config_id, organization_id, error)
     select t.gateway_id, c.id, c.organization_id, q.error
     from (select $1::uuid[] as ids, $2::uuid[] as organizations, $3::text[] as errors offset 0) as asked,
       unnest(asked.ids, asked.organizations, asked.errors) as q (task_id, organization_id, error)
     join gateway_task t on t.id = q.task_id and t.organization_id = q.organization_id
     join rotation_config c on c.id = t.config_id and c.organization_id = t.organization_id
       and c.updated_at <= t.claimed_at
     for share of c
     on conflict (gateway_id, config_id) do update set error = excluded.error, checked_at = excluded.checked_at`,
    [checks.map(({ id }) => id), checks.map(({ organizationId }) => organizationId), checks.map(({ error }) => error)],
  );
}

interface Counts {
  readonly environment: string;
  readonly configurations: number;
  readonly ready: number;
  readonly unchecked: number;
  readonly failing: number;
}

interface Failure {
  readonly environment: string;
  readonly configId: string;
  readonly secretId: string;
  readonly gatewayId: string;
  readonly error: string;
  readonly checkedAt: string;
}

const mostFailures = 100;

/** What gateways of the organization rotate, beside the gateways that could take over, and what those found out. */
const found = `from rotation_config c
  join secret s on s.id = c.secret_id and ${isActive}
  left join gateway g on g.organization_id = c.organization_id and g.environment = c.gateway_environment
    and ${standsBy("$2")}
  left join gateway_readiness r on r.gateway_id = g.id and r.config_id = c.id
  where c.organization_id = $1 and c.gateway_environment is not null`;

const selectCounts = `select environment, count(*)::int as configurations,
    count(*) filter (where failing = 0 and standbys > 0 and checked = standbys)::int as ready,
    count(*) filter (where failing = 0 and (standbys = 0 or checked < standbys))::int as unchecked,
    count(*) filter (where failing > 0)::int as failing
  from (select c.gateway_environment as environment, count(g.id) as standbys, count(r.config_id) as checked,
      count(r.error) as failing ${found} group by c.id) as verdicts
  group by environment`;

const selectFailures = `select environment, "configId", "secretId", "gatewayId", error, "checkedAt"
  from (select c.gateway_environment as environment, c.id as "configId", c.secret_id as "secretId", g.id as "gatewayId",
      r.error, r.checked_at as "checkedAt",
      row_number() over (partition by c.gateway_environment order by r.checked_at desc, c.id) as position
    ${found} and r.error is not null) as failures
  where position <= ${mostFailures} order by environment, position`;

/** What would work after a failover, by environment, as the gateways found out that could take over now. */
export async function readinessOf(
  queries: Queries,
  organizationId: string,
  { heartbeatTimeout }: Timing,
): Promise<ReadonlyMap<string, EnvironmentReadiness>> {
  const asked = [organizationId, heartbeatTimeout];
  const counts = await queries.query<Counts>(selectCounts, asked);
  const isFailing = counts.some(({ failing }) => failing > 0);
  const rows = isFailing ? await queries.query<Failure>(selectFailures, asked) : [];
  const failures = Map.groupBy(rows, ({ environment }) => environment);
  return new Map(
    counts.map(({ environment, ...counted }) => [
      environment,
      { ...counted, failures: (failures.get(environment) ?? []).map(failureOf) },
    ]),
  );
}

const failureOf = ({ configId, secretId, gatewayId, error, checkedAt }: Failure) => ({
  configId,
  secretId,
  gatewayId,
  error,
  checkedAt: new Date(checkedAt),
});
