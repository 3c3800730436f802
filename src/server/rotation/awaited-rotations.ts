import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import {
  type RotateSecretResponse,
  RotateSecretResponseSchema,
  type RotationExecution,
  RotationExecutionSchema,
} from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import type { Core } from "../context.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound, Refusal } from "../errors.ts";
import { taskTopic } from "../gateways/task-streams.ts";
import type { Call } from "../wire/call.ts";
import type { ServerTasks } from "./server-tasks.ts";

/** What whoever waits for a rotation is told with. */
interface WaitingCore extends Pick<Core, "db" | "wakes"> {
  readonly serverTasks: ServerTasks;
}

/** The last of a task and those that tried again, and what it made of the secret. */
interface Standing {
  readonly id: string;
  readonly status: "pending" | "running" | "succeeded" | "failed" | "timed_out" | "cancelled";
  readonly environment: string | null;
  readonly error: string | null;
  readonly unresolved: boolean;
  readonly version: number | null;
  readonly rotated_at: string | null;
  readonly next_rotation: string | null;
}

const longestWaitSeconds = 30;
/** Wakes may get lost. */
const pollMs = 500;
/** When it makes sense to ask again: soon for what goes on, and not before it was tried again for what has failed. */
const retryAfter = { unendedSeconds: 5, failedSeconds: 60 };

const selectStanding = `with recursive chain as (
    select t.* from gateway_task t where t.id = $1 and t.organization_id = $2
    union all
    select n.* from chain t join gateway_task n on n.config_id = t.config_id and n.retry_of = t.id)
  select t.id, t.status, t.environment, t.error, t.unresolved, t.version, v.created_at as rotated_at, s.next_rotation
  from chain t left join secret s on s.id = t.secret_id
  left join secret_version v on v.secret_id = t.secret_id and v.version = t.version
  order by t.attempt desc limit 1`;

/** Completes the answer to rotate: the new version, which is waited for unless it is there already. */
export async function completeRotate(
  core: WaitingCore,
  answer: RotateSecretResponse,
  call: Call,
  signal: AbortSignal,
): Promise<RotateSecretResponse> {
  const { id, taskId } = answer;
  if (taskId === undefined) return answer;
  const { version, rotated_at, next_rotation } = await endOf(core, call, { taskId, secretId: id }, signal);
  return create(RotateSecretResponseSchema, {
    id,
    version: version ?? 0,
    rotatedAt: timestampOf(rotated_at),
    nextRotation: timestampOf(next_rotation),
  });
}

/** Completes the answer to execute: what the server does itself is waited for, and no gateway is. */
export async function completeExecute(
  core: WaitingCore,
  answer: RotationExecution,
  call: Call,
  signal: AbortSignal,
): Promise<RotationExecution> {
  if (answer.status !== "pending" || answer.environment !== undefined) return answer;
  const { version } = await endOf(core, call, answer, signal);
  return create(RotationExecutionSchema, { ...answer, status: "succeeded", version: version ?? undefined });
}

/**
 * Waits until a rotation has succeeded, at most 30 seconds, and sees to it that it has begun where it is the server's own.
 * Throws SERVICE_UNAVAILABLE with the task's id when it fails or takes longer; it goes on then, also when `signal` is
 * aborted. Throws NOT_FOUND when the secret is gone for good by then.
 */
async function endOf(
  { db, wakes, serverTasks }: WaitingCore,
  call: Call,
  task: { readonly taskId: string; readonly secretId: string },
  signal: AbortSignal,
): Promise<Standing> {
  const { taskId } = task;
  const waitUntil = performance.now() + longestWaitSeconds * 1000;
  for (;;) {
    const pause = new AbortController();
    const stopListening = wakes.on(taskTopic(task), () => pause.abort());
    try {
      // Outside of the call's transaction, which has ended.
      const [found] = await db.query<Standing>(selectStanding, [taskId, call.caller.organizationId]);
      if (found === undefined) throw refusal("rotation failed: its task is gone", taskId, retryAfter.failedSeconds);
      if (found.status === "succeeded") {
        if (found.version === null) throw notFound("secret"); // gone for good meanwhile
        return found;
      }
      if (found.status !== "pending" && found.status !== "running") throw failureOf(found, taskId);
      if (performance.now() >= waitUntil) {
        throw refusal(
          `the rotation has not ended within ${longestWaitSeconds} s, and goes on`,
          taskId,
          retryAfter.unendedSeconds,
        );
      }
      if (found.status === "pending" && found.environment === null) serverTasks.start(found.id);
      await sleep(pollMs, undefined, { signal: AbortSignal.any([pause.signal, signal]) }).catch(() => {});
      signal.throwIfAborted();
    } finally {
      stopListening();
    }
  }
}

function failureOf({ status, error, unresolved }: Standing, taskId: string): Refusal {
  const isUnresolved = unresolved || status === "timed_out";
  const left = isUnresolved
    ? "whether the target has the new value is not known, it will be tried again"
    : "the current value is unchanged";
  return refusal(`rotation failed: ${error ?? status}; ${left}`, taskId, retryAfter.failedSeconds);
}

const refusal = (message: string, taskId: string, retryAfterSeconds: number) =>
  new Refusal("SERVICE_UNAVAILABLE", message, {
    details: [{ field: "task_id", message: taskId }],
    retryAfterSeconds,
  });
