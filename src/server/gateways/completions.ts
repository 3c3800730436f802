import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CompleteTaskRequest,
  CompleteTaskResponseSchema,
  TaskFailed,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions } from "../db/page.ts";
import { conflict, notFound, Refusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { callingGateway } from "./calling-gateway.ts";
import { staleToken } from "./claims.ts";
import { shareEnvironment } from "./environment-lock.ts";
import type { GatewayCore } from "./gateway-core.ts";
import type { FailedTask, Task } from "./gateway-work.ts";
import { endBadly } from "./task-endings.ts";
import { auditedOf, workColumns } from "./task-record.ts";
import { gatewayTopic, taskTopic } from "./task-streams.ts";

type Answer = MessageInitShape<typeof CompleteTaskResponseSchema>;

/**
 * Ends a task as its gateway reports, in the call's transaction, if it is running by that very claim and under the token
 * of this moment (G-8.24). The same report may come again, when its answer got lost. Throws ABORTED for one that comes
 * too late, which is recorded as that and changes nothing; NOT_FOUND for a task that was never this gateway's.
 */
export async function completeTask(
  call: Call,
  request: CompleteTaskRequest,
  { work, wakes }: Pick<GatewayCore, "wakes" | "work">,
): Promise<Answer> {
  const { id, environment } = await callingGateway(call, request).catch((error: unknown) => {
    throw error instanceof Refusal && error.errorCode === "RESOURCE_CONFLICT" ? late(call, request, error) : error;
  });
  await shareEnvironment(call.em, { organizationId: call.caller.organizationId, environment });
  const { outcome } = request;
  const status = outcome.case === "failed" ? "failed" : "succeeded";
  if (outcome.case === "failed") {
    const [task] = await fail(call, request, outcome.value);
    if (task === undefined) return answerAgain(call, request);
    await work.failed(call.em, [task]);
    if (task.retryId !== null) call.afterCommit(async () => wakes.wake(gatewayTopic(id)));
    about(call, task, { status, permanent: outcome.value.permanent, retry_id: task.retryId });
    call.afterCommit(async () => wakes.wake(taskTopic(task)));
  } else {
    const task = await succeed(call, request);
    if (task === undefined) return answerAgain(call, request);
    about(call, task, { status });
    await work.succeeded(call, task, outcome.value?.value);
    call.afterCommit(async () => wakes.wake(taskTopic(task)));
  }
  return { status };
}

/** Those of the tasks in `t` that the caller has claimed, and may complete: at most one. */
function claimed(call: Call, request: CompleteTaskRequest): Conditions {
  const { taskId, gatewayId, instanceId, claimId, fencingToken = null } = request;
  return new Conditions()
    .add("t.id = ?", taskId)
    .add("t.organization_id = ?", call.caller.organizationId)
    .add("t.gateway_id = ?", gatewayId)
    .add("t.claim_id = ?", claimId)
    .add(
      `exists (select from gateway g where g.id = t.gateway_id and g.instance_id = ? and g.deactivated_at is null
         and g.retired_at is null)`,
      instanceId,
    )
    .add(
      `(t.type = 'verify_secret' or t.fencing_token = ? and exists (
         select from environment_lock l
         where l.organization_id = t.organization_id and l.environment = t.environment
           and l.holder_id = t.gateway_id and l.fencing_token = t.fencing_token))`,
      fencingToken,
    );
}

async function succeed(call: Call, request: CompleteTaskRequest): Promise<Task | undefined> {
  const where = claimed(call, request);
  const [task] = await run<Task>(
    call.em,
    `update gateway_task t set status = 'succeeded', finished_at = now()
     where t.status = 'running' and ${where.text} returning ${workColumns}`,
    where.values,
  );
  return task;
}

/** Who reports under the current token is the one that tries again. */
const fail = (call: Call, request: CompleteTaskRequest, { message, permanent, unchanged }: TaskFailed) =>
  endBadly(call.em, claimed(call, request), {
    status: "failed",
    error: message,
    nextGatewayId: request.gatewayId,
    permanent,
    unchanged,
  });

/** What was answered to a report that came before; throws ABORTED when there was none in time. */
async function answerAgain(call: Call, request: CompleteTaskRequest): Promise<Answer> {
  const { taskId, gatewayId, claimId } = request;
  const [task] = await run<{ status: string; claim_id: string | null }>(
    call.em,
    "select status, claim_id from gateway_task where id = $1 and organization_id = $2 and gateway_id = $3",
    [taskId, call.caller.organizationId, gatewayId],
  );
  if (task === undefined) throw notFound("task");
  const { status, claim_id } = task;
  if (claim_id === claimId.toLowerCase() && (status === "succeeded" || status === "failed")) {
    call.action = "";
    return { status };
  }
  const hasEnded = status !== "pending" && status !== "running";
  throw late(call, request, hasEnded ? conflict(`the task has ended: it is ${status}`) : staleToken());
}

/** Has a refusal recorded as that of a report that came too late. */
function late(call: Call, { taskId, gatewayId, claimId, outcome }: CompleteTaskRequest, refusal: Refusal): Refusal {
  call.action = "task.late_report";
  const details = { gateway_id: gatewayId, claim_id: claimId, reported: outcome.case };
  call.subject = { type: "task", id: taskId, details };
  return refusal;
}

function about(call: Call, task: Task | FailedTask, more: Record<string, unknown>): void {
  call.subject = { type: "task", id: task.id, details: { ...auditedOf(task), ...more } };
}
