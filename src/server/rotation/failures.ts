import { type AuditEvent, type AuditWriter, systemEvent } from "../audit/audit-writer.ts";
import { type EntityManager, run } from "../db/database.ts";
import { usualProvider, usualSettings } from "./providers.ts";
import { waitAfter } from "./retry-times.ts";

/** An attempt to rotate a secret that failed, and is not tried again by whoever reports it. */
export interface RotationFailure {
  readonly organizationId: string;
  readonly configId: string;
  readonly secretId: string;
  readonly code: "refused" | "unreachable" | "timed_out" | "invalid";
  /** For people; holds nothing secret. */
  readonly message: string;
  /** Whether the target is certainly as it was before the attempt. */
  readonly unchanged: boolean;
}

/** A failure that is to be told of. */
interface Told {
  readonly organizationId: string;
  readonly secretId: string;
  readonly configId: string;
  readonly key: string;
  readonly projectId: string;
  readonly code: string;
  readonly message: string;
  readonly failures: number;
  readonly unresolved: boolean;
}

/**
 * Secrets come before their configurations and in one order, as everybody locks them. Where values are brought nowhere any
 * more, there is nothing to be in doubt of.
 */
const insertFailures = `with failure as (
    select s.id, s.organization_id, s.rotation_config_id, s.key, s.project_id, s.rotation_enabled, q.code, q.message,
      q.unchanged
    from (select $1::uuid[] as ids, $2::uuid[] as organizations, $3::uuid[] as configs, $4::text[] as codes,
        $5::text[] as messages, $6::boolean[] as unchanged offset 0) as asked,
      unnest(asked.ids, asked.organizations, asked.configs, asked.codes, asked.messages, asked.unchanged)
        as q (id, organization_id, config_id, code, message, unchanged)
    join secret s on s.id = q.id and s.organization_id = q.organization_id and s.rotation_config_id = q.config_id
    order by s.id for no key update of s),
  before as (
    select c.id, c.provider, c.unresolved,
      case when c.consecutive_failures > 0 and c.failure_told_at > now() - interval '1 day' then c.failure_told_at end
        as told_at
    from failure f join rotation_config c on c.id = f.rotation_config_id for no key update of c),
  noted as (
    insert into rotation_config as c (id, organization_id, secret_id, provider_settings, last_status, last_error_code,
      last_error_message, last_error_at, consecutive_failures, unresolved, failure_told_at)
    select f.rotation_config_id, f.organization_id, f.id, $7, 'failed', f.code, f.message, now(), 1,
      not f.unchanged and coalesce(b.provider, '${usualProvider}') <> '${usualProvider}', coalesce(b.told_at, now())
    from failure f left join before b on b.id = f.rotation_config_id
    on conflict (id) do update set last_status = 'failed', last_error_code = excluded.last_error_code,
      last_error_message = excluded.last_error_message, last_error_at = excluded.last_error_at,
      consecutive_failures = c.consecutive_failures + 1,
      unresolved = c.provider <> '${usualProvider}' and (c.unresolved or excluded.unresolved), failure_told_at = excluded.failure_told_at
    returning c.id, c.consecutive_failures, c.unresolved),
  scheduled as (
    update secret s set rotation_due_at = case when not (f.rotation_enabled or n.unresolved) then null
      when n.unresolved and b.unresolved is not true then now()
      else now() + ${waitAfter("n.consecutive_failures")} end
    from failure f join noted n on n.id = f.rotation_config_id left join before b on b.id = n.id where s.id = f.id)
  select f.organization_id as "organizationId", f.id as "secretId", n.id as "configId", f.key,
    f.project_id as "projectId", f.code, f.message, n.consecutive_failures as failures, n.unresolved
  from failure f join noted n on n.id = f.rotation_config_id left join before b on b.id = n.id where b.told_at is null`;

/**
 * Notes that rotations failed, each of another secret, and when they are tried again (G-3.3): at once where nobody knows
 * any more what the target has, else after a while; never where neither schedule nor doubt asks for it. The first failure
 * of a streak is told of in the audit log, and daily then. Locks the secrets.
 */
export async function noteFailed(
  em: EntityManager,
  audit: AuditWriter,
  failures: readonly RotationFailure[],
): Promise<void> {
  if (failures.length === 0) return;
  const told = await run<Told>(em, insertFailures, [
    failures.map(({ secretId }) => secretId),
    failures.map(({ organizationId }) => organizationId),
    failures.map(({ configId }) => configId),
    failures.map(({ code }) => code),
    failures.map(({ message }) => message),
    failures.map(({ unchanged }) => unchanged),
    JSON.stringify(usualSettings),
  ]);
  await audit.record(em, told.map(eventOf));
}

const eventOf = (failure: Told): AuditEvent =>
  systemEvent({
    organizationId: failure.organizationId,
    action: "rotation.failed",
    outcome: "failure",
    resourceType: "secret",
    resourceId: failure.secretId,
    resourceName: failure.key,
    projectId: failure.projectId,
    reason: failure.message,
    details: {
      config_id: failure.configId,
      code: failure.code,
      consecutive_failures: failure.failures,
      unresolved: failure.unresolved,
    },
  });
