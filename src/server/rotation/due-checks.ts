import { type EntityManager, onOutcome, run } from "../db/database.ts";
import { gatewayTopic } from "../gateways/task-streams.ts";
import type { Timing } from "../gateways/timing.ts";
import type { Wakes } from "../wake/wakes.ts";
import { isActive } from "./config-row.ts";
import { standsBy } from "./standby.ts";

/** Of one gateway, that nobody has begun: so that a thousand that are due at once do not keep it busy with nothing else. */
const mostWaiting = 100;

interface Place {
  readonly organization_id: string;
  readonly environment: string;
}

interface Due extends Place {
  readonly gateway_id: string;
  readonly config_id: string;
  readonly secret_id: string;
}

/** What each gateway that stands by has not looked at for an interval, or ever; that which waits longest first. */
const selectDue = `select g.organization_id, g.environment, g.id as gateway_id, due.config_id, due.secret_id
  from gateway g cross join lateral (
    select c.id as config_id, c.secret_id
    from rotation_config c
    join secret s on s.id = c.secret_id and ${isActive}
    left join gateway_readiness r on r.gateway_id = g.id and r.config_id = c.id
    where c.organization_id = g.organization_id and c.gateway_environment = g.environment
      and (r.checked_at is null or r.checked_at <= now() - make_interval(secs => $2))
      and not exists (select from gateway_task t where t.config_id = c.id and t.gateway_id = g.id
        and t.type = 'verify_secret' and t.status in ('pending', 'running'))
    order by r.checked_at nulls first, c.id
    limit $3 - least($3, (select count(*) from gateway_task t where t.gateway_id = g.id and t.status = 'pending'))) due
  where ${standsBy("$1")}`;

/** One that is being failed over at this moment is left to the next round. */
const shareEnvironments = `select organization_id, environment from environment_lock
  where (organization_id, environment) in (
    select q.* from (select $1::uuid[] as organizations, $2::text[] as environments offset 0) as asked,
      unnest(asked.organizations, asked.environments) as q)
  for share skip locked`;

/** Read anew, now that nobody can become active. */
const insertChecks = `insert into gateway_task
    (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts, requested_by)
  select q.organization_id, q.environment, g.id, 'verify_secret', q.config_id, q.secret_id, 1, 'system'
  from (select $1::jsonb as due offset 0) as asked,
    jsonb_to_recordset(asked.due)
      as q (organization_id uuid, environment text, gateway_id uuid, config_id uuid, secret_id uuid)
  join gateway g on g.id = q.gateway_id and ${standsBy("$2")}
  order by g.id, q.config_id
  on conflict do nothing returning gateway_id`;

/** Queues the checks that are due. Their gateways hear of them once that has committed. */
export async function queueDueChecks(em: EntityManager, wakes: Wakes, timing: Timing): Promise<void> {
  const { verifyInterval, heartbeatTimeout } = timing;
  if (verifyInterval === 0) return;
  const due = await run<Due>(em, selectDue, [heartbeatTimeout, verifyInterval, mostWaiting]);
  if (due.length === 0) return;
  const held = await run<Place>(em, shareEnvironments, [
    due.map(({ organization_id }) => organization_id),
    due.map(({ environment }) => environment),
  ]);
  const places = new Set(held.map(placeOf));
  const checks = due.filter((each) => places.has(placeOf(each)));
  const queued = await run<{ gateway_id: string }>(em, insertChecks, [JSON.stringify(checks), heartbeatTimeout]);
  const gatewayIds = new Set(queued.map(({ gateway_id }) => gateway_id));
  onOutcome(em, (committed) => {
    if (committed) for (const id of gatewayIds) wakes.wake(gatewayTopic(id));
  });
}

const placeOf = ({ organization_id, environment }: Place) => `${organization_id} ${environment}`;
