import { type AuditWriter, systemEvent } from "../audit/audit-writer.ts";
import { type EntityManager, run } from "../db/database.ts";
import { isActive } from "./config-row.ts";
import { stopRotations } from "./stop-rotations.ts";

interface Cancelled {
  readonly id: string;
  readonly organizationId: string;
  readonly type: string;
  readonly configId: string;
  readonly secretId: string;
  readonly error: string;
  readonly key: string | null;
  readonly projectId: string | null;
}

const batchSize = 1000;

/** Tasks that nobody has begun, and that are about nothing any more (G-2.19, G-8.21). */
const cancelOrphaned = `with orphaned as (
    select t.id, s.key, s.project_id, case when c.id is null and ${isActive} then 'the configuration has changed'
      else 'the secret is not active' end as error
    from gateway_task t
    left join secret s on s.id = t.secret_id and s.organization_id = t.organization_id
    left join rotation_config c on c.id = t.config_id and c.secret_id = s.id and c.gateway_environment is not distinct from t.environment
    where t.status = 'pending' and (c.id is null or not (${isActive}))
    limit $1 for update of t skip locked)
  update gateway_task t set status = 'cancelled', finished_at = now(), error = orphaned.error
  from orphaned where t.id = orphaned.id
  returning t.id, t.organization_id as "organizationId", t.type, t.config_id as "configId", t.secret_id as "secretId",
    orphaned.error, orphaned.key, orphaned.project_id as "projectId"`;

/** Cancels pending tasks whose secret is not active, or is no longer rotated by gateways of that environment. */
export async function cancelOrphanedTasks(em: EntityManager, audit: AuditWriter): Promise<void> {
  const cancelled = await run<Cancelled>(em, cancelOrphaned, [batchSize]);
  await stopRotations(
    em,
    cancelled.filter(({ type }) => type === "rotate_secret"),
  );
  await audit.record(em, cancelled.map(eventOf));
}

const eventOf = ({ id, organizationId, type, configId, secretId, error, key, projectId }: Cancelled) =>
  systemEvent({
    organizationId,
    action: "task.cancel",
    resourceType: "task",
    resourceId: id,
    resourceName: key,
    projectId,
    reason: error,
    details: { type, config_id: configId, secret_id: secretId },
  });
