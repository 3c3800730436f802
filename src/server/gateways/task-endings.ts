import { type AuditEvent, systemEvent } from "../audit/audit-writer.ts";
import { type EntityManager, run } from "../db/database.ts";
import type { Conditions } from "../db/page.ts";
import type { FailedTask } from "./gateway-work.ts";
import { auditedOf, workColumns } from "./task-record.ts";

/** How a task ends badly. */
export interface BadEnding {
  readonly status: "failed" | "timed_out";
  readonly error: string;
  /** Who tries again; none while nobody is active. */
  readonly nextGatewayId: string | null;
  /** Trying again would not help. */
  readonly permanent?: boolean;
  /** Everything outside is certainly as it was before. */
  readonly unchanged?: boolean;
}

/**
 * Ends running tasks badly, those that `where` selects of table `t`, and queues the next attempts of those that have
 * one: in one statement, so that of a rotation there is never none and never a second one.
 */
export async function endBadly(em: EntityManager, where: Conditions, ending: BadEnding): Promise<FailedTask[]> {
  const { status, error, nextGatewayId, permanent = false, unchanged = false } = ending;
  const given = where.values.length;
  return run<FailedTask>(
    em,
    `with ended as (
       update gateway_task t set status = $${given + 1}, error = $${given + 2}, finished_at = now()
       where t.status = 'running' and ${where.text} returning t.*),
     retry as (
       insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, attempt,
         max_attempts, retry_of, requested_by, change_reason)
       select organization_id, environment, $${given + 3}::uuid, type, config_id, secret_id, attempt + 1,
         max_attempts, id, requested_by, change_reason
       from ended where attempt < max_attempts and not $${given + 4}
       returning id, retry_of)
     select ${workColumns}, t.status, t.error, $${given + 5}::boolean as unchanged, retry.id as "retryId"
     from ended t left join retry on retry.retry_of = t.id`,
    [...where.values, status, error, nextGatewayId, permanent, unchanged],
  );
}

/** The audit event of a task that has run for too long. */
export const timeoutOf = (task: FailedTask): AuditEvent =>
  systemEvent({
    organizationId: task.organizationId,
    action: "task.timeout",
    resourceType: "task",
    resourceId: task.id,
    resourceName: null,
    details: { ...auditedOf(task), retry_id: task.retryId },
  });

/** Which claim of which task. */
interface Claim {
  readonly id: string;
  readonly organizationId: string;
  readonly claimId: string;
}

/** Ends a task that was just claimed and is about nothing any more, as if nobody had: nobody outside has seen that. */
export async function cancelClaimed(em: EntityManager, { id, organizationId, claimId }: Claim): Promise<void> {
  await run(
    em,
    `update gateway_task set status = 'cancelled', finished_at = now(), error = 'the secret or its configuration is gone',
       claim_id = null, fencing_token = null, claimed_at = null, deadline_at = null
     where id = $1 and organization_id = $2 and status = 'running' and claim_id = $3`,
    [id, organizationId, claimId],
  );
}
