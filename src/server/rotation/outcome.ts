import { type EntityManager, run } from "../db/database.ts";
import { invalidField } from "../errors.ts";
import type { FailedTask, Task } from "../gateways/gateway-work.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import { lockSecret } from "../secrets/find-secret.ts";
import type { Call } from "../wire/call.ts";
import { commitRotation } from "./commit-rotation.ts";
import { candidatePlace } from "./rotation-places.ts";

/**
 * Makes the value that a gateway has applied the secret's own. That is done as well when the secret was archived or
 * deleted meanwhile: the target has the value already, and whoever restores the secret must find it. Throws
 * VALIDATION_ERROR for a value where one was given, and for none where the target was to make it.
 */
export async function rotationSucceeded(call: Call, seal: Seal, task: Task, made: string | undefined): Promise<void> {
  const secret = await lockSecret(call.em, task.secretId);
  if (secret === null) return; // gone for good, and its key with it
  const [config] = await run<{ candidate: Buffer | null }>(
    call.em,
    "select candidate from rotation_config where id = $1 and organization_id = $2",
    [task.configId, task.organizationId],
  );
  const sealed = config?.candidate ?? null;
  if (sealed !== null && made !== undefined) {
    throw invalidField("succeeded.value", "must be absent: the value was given with the task");
  }
  const key = await dataKeyOf(call, seal, secret);
  const value = sealed === null ? made && Buffer.from(made) : seal.open(key, candidatePlace(task), sealed);
  if (!value) throw invalidField("succeeded.value", "is required: the target makes the value");
  const { requestedBy, changeReason } = task;
  await commitRotation(call, seal, secret, key, { value, taskId: task.id, requestedBy, changeReason });
}

/** Notes that rotations have failed for good; the next ones begin with values of their own. */
export async function rotationsFailed(em: EntityManager, tasks: readonly FailedTask[]): Promise<void> {
  if (tasks.length === 0) return;
  await run(
    em,
    `update rotation_config c set last_status = 'failed', candidate = null,
       consecutive_failures = c.consecutive_failures + 1, last_error_at = now(), last_error_message = q.error,
       last_error_code = case q.status when 'timed_out' then 'timed_out' else 'refused' end
     from (select $1::uuid[] as ids, $2::uuid[] as organizations, $3::text[] as statuses, $4::text[] as errors offset 0)
         as asked,
       unnest(asked.ids, asked.organizations, asked.statuses, asked.errors) as q (config_id, organization_id, status, error)
     where c.id = q.config_id and c.organization_id = q.organization_id`,
    [
      tasks.map(({ configId }) => configId),
      tasks.map(({ organizationId }) => organizationId),
      tasks.map(({ status }) => status),
      tasks.map(({ error }) => error),
    ],
  );
}
