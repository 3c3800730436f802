import type { JsonObject } from "@bufbuild/protobuf";
import { type Database, type EntityManager, run } from "../db/database.ts";
import { isExpired } from "../secrets/secret-record.ts";
import { isActive } from "./config-row.ts";
import { usualProvider, usualSettings } from "./providers.ts";

/** For so long nobody else looks at a secret whose turn has come: longer than beginning its rotation usually takes. */
const takenSeconds = 10;
/** A rotation that has begun says itself when its secret is to be looked at next; this is for one that is cancelled. */
const openSeconds = 300;

/** A secret that is to be rotated, as far as it takes to begin. */
export interface DueRotation {
  readonly organizationId: string;
  readonly secretId: string;
  readonly configId: string;
  readonly key: string;
  readonly provider: string;
  /** Whose active gateway applies the value; none where the server does. */
  readonly gatewayEnvironment: string | null;
  /** When somebody looks at the secret again. Only who took it knows this time, and only until anything else happens to it. */
  readonly takenUntil: string;
}

/**
 * SQL for whether a secret is to be rotated without anybody asking, from its own columns and those of its configuration.
 * A value that is brought nowhere ends no doubt: the target would never hear of it.
 */
const isToRotate = (secret: string, config: string) =>
  `(${secret}.rotation_enabled and ${secret}.next_rotation <= now()
    or coalesce(${config}.unresolved and ${config}.provider <> '${usualProvider}', false))`;

/**
 * Whoever is locked is being changed at this moment and left to the next round. One that is not to be rotated was
 * scheduled by something that is no more so, and is looked at when it may be; the sweep comes for one that has expired.
 */
const takeStatement = `with due as (
    select s.id, s.organization_id, s.rotation_config_id, s.rotation_enabled, s.next_rotation, ${isExpired} as is_expired
    from secret s where s.rotation_due_at <= now() and s.status = 'active'
    order by s.rotation_due_at limit $1 for no key update skip locked),
  judged as (
    select d.*, coalesce(c.provider, '${usualProvider}') as provider, c.gateway_environment,
      case when d.is_expired then 'expired' when not ${isToRotate("d", "c")} then 'early'
        when exists (select from gateway_task t where t.config_id = d.rotation_config_id and t.type = 'rotate_secret'
          and t.status in ('pending', 'running')) then 'open' else 'due' end as verdict
    from due d left join rotation_config c on c.id = d.rotation_config_id)
  update secret s set rotation_due_at = case j.verdict
    when 'early' then case when j.rotation_enabled then j.next_rotation end
    when 'open' then now() + make_interval(secs => ${openSeconds}) else now() + make_interval(secs => ${takenSeconds}) end
  from judged j where s.id = j.id
  returning j.verdict, s.id as "secretId", s.organization_id as "organizationId", s.rotation_config_id as "configId",
    s.key, j.provider, j.gateway_environment as "gatewayEnvironment", s.rotation_due_at as "takenUntil"`;

/** Takes the secrets whose turn it is, at most so many; answers those that are to be rotated, and how many it looked at. */
export async function takeDue(db: Database, limit: number): Promise<{ due: DueRotation[]; seen: number }> {
  const rows = await db.query<DueRotation & { verdict: string }>(takeStatement, [limit]);
  return { due: rows.filter(({ verdict }) => verdict === "due"), seen: rows.length };
}

/** How the value of a secret that is to be rotated is made. */
export interface DueConfig {
  readonly settings: JsonObject;
  /** By the database's clock, which is what schedules go by. */
  readonly now: Date;
}

/** How a secret, which is locked, is to be rotated; undefined when something has happened to it since it was taken. */
export async function stillDue(
  em: EntityManager,
  { secretId, organizationId, provider, gatewayEnvironment, takenUntil }: DueRotation,
): Promise<DueConfig | undefined> {
  const [row] = await run<{ settings: JsonObject; now: string }>(
    em,
    `select coalesce(c.provider_settings, $6) as settings, now() from secret s
     left join rotation_config c on c.id = s.rotation_config_id
     where s.id = $1 and s.organization_id = $2 and s.rotation_due_at = $3 and ${isActive} and ${isToRotate("s", "c")}
       and coalesce(c.provider, '${usualProvider}') = $4 and c.gateway_environment is not distinct from $5`,
    [secretId, organizationId, takenUntil, provider, gatewayEnvironment, JSON.stringify(usualSettings)],
  );
  return row && { settings: row.settings, now: new Date(row.now) };
}
