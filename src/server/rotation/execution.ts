import { randomUUIDv7 } from "node:crypto";
import { run } from "../db/database.ts";
import { conflict } from "../errors.ts";
import { queueTask } from "../gateways/task-routing.ts";
import { gatewayTopic } from "../gateways/task-streams.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Work } from "../system-work.ts";
import type { Wakes } from "../wake/wakes.ts";
import type { Call } from "../wire/call.ts";
import { commitRotation } from "./commit-rotation.ts";
import type { ConfigRow } from "./config-row.ts";
import { isAppliedByNobody, newValue, usualProvider } from "./providers.ts";
import type { ServerTasks } from "./server-tasks.ts";

/** What became of a rotation that somebody asked for, so far. */
export interface Execution {
  readonly taskId: string;
  readonly createdAt: Date;
  /** Whose active gateway does it; none where the server does. */
  readonly environment: string | null;
  /** The gateway that the task is routed to; none where no gateway is active, or the server does it. */
  readonly gatewayId: string | null;
  /** The new version, once there is one. */
  readonly version?: number;
}

/** Who asks for a rotation, and why. */
interface Asked {
  /** The id of an identity, or "system". */
  readonly requestedBy: string;
  readonly changeReason: string;
}

/**
 * Queues the rotation of a configuration as it was seen, or is about to be, for whoever applies the value; nothing where
 * nobody does. Comes before the secret is locked, as whoever ends a task locks in that order. Throws ABORTED while another
 * one of the secret has not ended. It begins once the call's transaction has committed.
 */
export async function queueRotation(
  call: Call,
  { serverTasks, wakes }: { readonly serverTasks: ServerTasks; readonly wakes: Wakes },
  { id, secretId, organizationId }: ConfigRow,
  { provider, gatewayEnvironment: environment }: Pick<ConfigRow, "gatewayEnvironment" | "provider">,
  changeReason: string,
): Promise<Execution | undefined> {
  if (isAppliedByNobody(provider)) return undefined;
  const draft = { organizationId, configId: id, secretId, requestedBy: call.caller.id, changeReason };
  if (environment === null) {
    const { id: taskId, createdAt } = await serverTasks.queue(call.em, draft);
    call.afterCommit(async () => serverTasks.start(taskId));
    return { taskId, createdAt, environment, gatewayId: null };
  }
  const { id: taskId, gatewayId, createdAt } = await queueTask(call.em, { ...draft, environment });
  if (gatewayId !== null) call.afterCommit(async () => wakes.wake(gatewayTopic(gatewayId)));
  return { taskId, createdAt, environment, gatewayId };
}

/** Notes that a rotation was queued, once the secret is locked. */
export async function noteQueued(
  { em }: Pick<Work, "em">,
  { configId, organizationId }: { readonly configId: string; readonly organizationId: string },
): Promise<void> {
  await run(em, "update rotation_config set last_status = 'running' where id = $1 and organization_id = $2", [
    configId,
    organizationId,
  ]);
}

/**
 * Rotates a locked secret here and now, to a given value or one that is made by the settings; its task is one that has
 * ended. Throws ABORTED while a task of it has not ended.
 */
export async function rotateHere(
  work: Work,
  seal: Seal,
  secret: Secret,
  { id, secretId, organizationId, settings }: Pick<ConfigRow, "id" | "organizationId" | "secretId" | "settings">,
  { requestedBy, changeReason }: Asked,
  given?: string,
): Promise<Execution & { readonly version: number }> {
  const taskId = randomUUIDv7();
  const [task] = await run<{ created_at: string }>(
    work.em,
    `insert into gateway_task (id, organization_id, type, status, config_id, secret_id, max_attempts, requested_by,
       change_reason, claimed_at, finished_at)
     select $1, $2, 'rotate_secret', 'succeeded', $3, $4, 1, $5, $6, now(), now()
     where not exists (select from gateway_task t
       where t.config_id = $3 and t.type = 'rotate_secret' and t.status in ('pending', 'running'))
     returning created_at`,
    [taskId, organizationId, id, secretId, requestedBy, changeReason],
  );
  if (task === undefined) throw conflict("another rotation of this secret is running");
  const value = Buffer.from(given ?? newValue(usualProvider, settings, ""));
  const key = await dataKeyOf(work, seal, secret);
  const rotated = { value, at: work.now, taskId, requestedBy, changeReason };
  const version = await commitRotation(work, seal, secret, key, rotated);
  return { taskId, createdAt: new Date(task.created_at), environment: null, gatewayId: null, version };
}
