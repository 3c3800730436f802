import { randomUUIDv7 } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { RotationExecutionSchema } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { generateValue } from "../../standards/generated-value.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import { conflict } from "../errors.ts";
import { queueTask } from "../gateways/task-routing.ts";
import { gatewayTopic } from "../gateways/task-streams.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Call } from "../wire/call.ts";
import { commitRotation } from "./commit-rotation.ts";
import type { ConfigRow } from "./config-row.ts";
import { generationOf } from "./providers.ts";

/** What became of a rotation that somebody asked for (gaps 3.4). */
export type Execution = MessageInitShape<typeof RotationExecutionSchema>;

/**
 * Queues a rotation for the gateway that is active in an environment. Comes before the secret is locked, as whoever
 * completes a task locks in that order. Throws ABORTED while another one of the secret has not ended.
 */
export async function queueRotation(
  call: Call,
  wakes: Core["wakes"],
  { id, secretId, organizationId }: ConfigRow,
  environment: string,
  changeReason: string,
): Promise<Execution> {
  const task = await queueTask(call.em, {
    organizationId,
    environment,
    configId: id,
    secretId,
    requestedBy: call.caller.id,
    changeReason,
  });
  const { gatewayId, createdAt } = task;
  if (gatewayId !== null) call.afterCommit(async () => wakes.wake(gatewayTopic(gatewayId)));
  return {
    configId: id,
    secretId,
    taskId: task.id,
    status: "pending",
    environment,
    gatewayId: gatewayId ?? undefined,
    createdAt: timestampOf(createdAt),
  };
}

/** Notes that a rotation was queued, once the secret is locked. */
export async function noteQueued(call: Call, { id, organizationId }: ConfigRow): Promise<void> {
  await run(call.em, "update rotation_config set last_status = 'running' where id = $1 and organization_id = $2", [
    id,
    organizationId,
  ]);
}

/** Rotates a locked secret here and now; its task is one that has ended. Throws ABORTED while a gateway rotates it. */
export async function rotateHere(
  call: Call,
  seal: Seal,
  secret: Secret,
  config: ConfigRow,
  changeReason: string,
): Promise<Execution> {
  const { id, secretId, organizationId } = config;
  const requestedBy = call.caller.id;
  const taskId = randomUUIDv7();
  const [task] = await run<{ created_at: string }>(
    call.em,
    `insert into gateway_task (id, organization_id, type, status, config_id, secret_id, max_attempts, requested_by,
       change_reason, claimed_at, finished_at)
     select $1, $2, 'rotate_secret', 'succeeded', $3, $4, 1, $5, $6, now(), now()
     where not exists (select from gateway_task t
       where t.config_id = $3 and t.type = 'rotate_secret' and t.status in ('pending', 'running'))
     returning created_at`,
    [taskId, organizationId, id, secretId, requestedBy, changeReason],
  );
  if (task === undefined) throw conflict("another rotation of this secret is running");
  const value = Buffer.from(generateValue(generationOf(config.settings)));
  const key = await dataKeyOf(call, seal, secret);
  const version = await commitRotation(call, seal, secret, key, { value, taskId, requestedBy, changeReason });
  return { configId: id, secretId, taskId, status: "succeeded", version, createdAt: timestampOf(task.created_at) };
}
