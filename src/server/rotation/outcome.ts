import type { KeyObject } from "node:crypto";
import type { AuditWriter } from "../audit/audit-writer.ts";
import { type EntityManager, run } from "../db/database.ts";
import { invalidField } from "../errors.ts";
import type { FailedTask, Task } from "../gateways/gateway-work.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import { lockSecret } from "../secrets/find-secret.ts";
import type { Work } from "../system-work.ts";
import { commitRotation } from "./commit-rotation.ts";
import { noteFailed, type RotationFailure } from "./failures.ts";
import { noteUnresolved } from "./kept-candidates.ts";
import { candidatePlace } from "./rotation-places.ts";

/** A task that has succeeded, as far as its version tells of it. */
type SucceededTask = Pick<Task, "changeReason" | "configId" | "id" | "organizationId" | "requestedBy" | "secretId">;

/**
 * Makes a value that is in use at its target the secret's own. That is done as well when the secret was archived or
 * deleted meanwhile: whoever restores it must find that value.
 */
export async function commitApplied(work: Work, seal: Seal, task: SucceededTask, value: string): Promise<void> {
  await commitTo(work, seal, task, () => Buffer.from(value));
}

/**
 * Makes the value that a gateway has applied the secret's own, as `commitApplied` does. Throws VALIDATION_ERROR for a
 * value where one was given, and for none where the target was to make it.
 */
export async function rotationSucceeded(
  work: Work,
  seal: Seal,
  task: SucceededTask,
  made: string | undefined,
): Promise<void> {
  await commitTo(work, seal, task, async (key) => {
    const [config] = await run<{ candidate: Buffer | null }>(
      work.em,
      "select candidate from rotation_config where id = $1 and organization_id = $2",
      [task.configId, task.organizationId],
    );
    const sealed = config?.candidate ?? null;
    if (sealed !== null && made !== undefined) {
      throw invalidField("succeeded.value", "must be absent: the value was given with the task");
    }
    const value = sealed === null ? made && Buffer.from(made) : seal.open(key, candidatePlace(task), sealed);
    if (!value) throw invalidField("succeeded.value", "is required: the target makes the value");
    return value;
  });
}

async function commitTo(
  work: Work,
  seal: Seal,
  { id: taskId, secretId, requestedBy, changeReason }: SucceededTask,
  valueUnder: (key: KeyObject) => Uint8Array | Promise<Uint8Array>,
): Promise<void> {
  const secret = await lockSecret(work.em, secretId);
  if (secret === null) return; // gone for good, and its key with it
  const key = await dataKeyOf(work, seal, secret);
  const value = await valueUnder(key);
  // Schedules go by the database's clock: by one that is behind, what was rotated might be due at once.
  const [{ now }] = (await run<{ now: string }>(work.em, "select now()", [])) as [{ now: string }];
  const rotated = { value, at: new Date(now), taskId, requestedBy, changeReason };
  await commitRotation(work, seal, secret, key, rotated);
}

/** Notes what gateways could not do: of attempts that others follow, only whether anybody knows what the target has. */
export async function rotationsFailed(
  em: EntityManager,
  audit: AuditWriter,
  tasks: readonly FailedTask[],
): Promise<void> {
  const { retried = [], givenUp = [] } = Object.groupBy(tasks, ({ retryId }) =>
    retryId === null ? "givenUp" : "retried",
  );
  await noteUnresolved(
    em,
    retried.filter(({ unchanged }) => !unchanged),
  );
  const failures = givenUp.map(
    (task) =>
      ({
        ...task,
        code: task.status === "timed_out" ? "timed_out" : "refused",
        message: task.error,
      }) as const,
  );
  await noteEnded(em, audit, failures);
}

/** Notes that rotations have failed, and with each task whether it has left anybody knowing what the target has. */
export async function noteEnded(
  em: EntityManager,
  audit: AuditWriter,
  failures: readonly (RotationFailure & { readonly id: string })[],
): Promise<void> {
  if (failures.length === 0) return;
  await noteFailed(em, audit, failures);
  await run(
    em,
    `update gateway_task t set unresolved = true
     from (select $1::uuid[] as ids, $2::uuid[] as organizations offset 0) as asked,
       unnest(asked.ids, asked.organizations) as q (id, organization_id), rotation_config c
     where t.id = q.id and t.organization_id = q.organization_id and c.id = t.config_id and c.unresolved`,
    [failures.map(({ id }) => id), failures.map(({ organizationId }) => organizationId)],
  );
}
