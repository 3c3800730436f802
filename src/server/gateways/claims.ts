import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  AssignmentSchema,
  ClaimTaskRequest,
  ClaimTaskResponseSchema,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions } from "../db/page.ts";
import { conflict, toRefusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { type CallingGateway, callingGateway } from "./calling-gateway.ts";
import { shareEnvironment } from "./environment-lock.ts";
import type { GatewayCore } from "./gateway-core.ts";
import type { Task, TaskContent } from "./gateway-work.ts";
import { cancelClaimed, endBadly } from "./task-endings.ts";
import { auditedOf, workColumns } from "./task-record.ts";

interface ClaimedTask extends Task {
  readonly claimId: string;
}

/** How a gateway is refused that acts under a token which is no longer that of its environment, or without it. */
export const staleToken = () => conflict("stale fencing token");

/** SQL for the type of the tasks that the gateway in `g` may claim; null for one that may claim none. */
export const claimableType = `case when g.retired_at is not null or g.deactivated_at is not null then null
  when g.activation_status = 'active' then 'rotate_secret' when g.activation_status = 'standby' then 'verify_secret' end`;

/** Tasks that cannot be done any more end on the way to one that can; more of them are left to the next claim. */
const mostTries = 20;

/**
 * Gives the calling gateway its oldest task, in the call's transaction: a rotation to the active one, which says so by
 * its token, and a check to one that stands by. Throws ABORTED for a gateway that may claim nothing, or no longer under
 * this token.
 */
export async function claimTask(
  call: Call,
  request: ClaimTaskRequest,
  core: Pick<GatewayCore, "logger" | "timing" | "work">,
): Promise<MessageInitShape<typeof ClaimTaskResponseSchema>> {
  const gateway = await callingGateway(call, request);
  call.about({ type: "gateway", id: gateway.id, name: gateway.name });
  const fencingToken = await checkMayClaim(call, gateway, request);
  for (let tries = 0; tries < mostTries; tries += 1) {
    const task = await claimNext(call, request, fencingToken, core.timing.taskTimeout);
    if (task === undefined) break;
    const content = await contentOrEnd(call, task, core);
    if (content === undefined) continue;
    const { key, projectId } = content;
    const details = { ...auditedOf(task), fencing_token: fencingToken };
    call.subject = { type: "task", id: task.id, name: key, projectId, details };
    return { assignment: assignmentOf(task, content, core.timing.taskTimeout) };
  }
  call.action = "";
  return {};
}

/**
 * Keeps the environment as it is until the transaction ends, and checks that the gateway may claim. Answers the token
 * that it holds the environment under, or null when it stands by.
 */
async function checkMayClaim(
  call: Call,
  { id, environment, activation_status, deactivated }: CallingGateway,
  { fencingToken }: ClaimTaskRequest,
): Promise<string | null> {
  const { organizationId } = call.caller;
  const holder = await shareEnvironment(call.em, { organizationId, environment });
  const current = holder?.gatewayId === id ? String(holder.fencingToken) : undefined;
  if (fencingToken !== current) throw staleToken();
  if (current !== undefined) return current;
  if (deactivated) throw conflict("the gateway is deactivated");
  if (activation_status === "failed") throw conflict("the gateway has failed");
  return null;
}

/** The oldest task that nobody else is about to take. What the gateway may claim is read again beside it. */
async function claimNext(
  call: Call,
  { gatewayId, instanceId }: ClaimTaskRequest,
  fencingToken: string | null,
  timeoutSeconds: number,
): Promise<ClaimedTask | undefined> {
  const [task] = await run<ClaimedTask>(
    call.em,
    `with next as (
       select id from gateway_task
       where gateway_id = $1 and organization_id = $2 and status = 'pending' and type = (
         select ${claimableType} from gateway g where g.id = $1 and g.instance_id = $3)
       order by created_at, id limit 1 for update skip locked)
     update gateway_task t set status = 'running', claim_id = gen_random_uuid(), fencing_token = $4, claimed_at = now(),
       deadline_at = now() + make_interval(secs => $5)
     from next where t.id = next.id and t.status = 'pending'
     returning ${workColumns}, t.claim_id as "claimId"`,
    [gatewayId, call.caller.organizationId, instanceId, fencingToken, timeoutSeconds],
  );
  return task;
}

function assignmentOf(
  { id, claimId, type, attempt, secretId, environment }: ClaimedTask,
  { key, driver, settings, credentials, value, previousValue, earlierCandidates }: TaskContent,
  timeoutSeconds: number,
): MessageInitShape<typeof AssignmentSchema> {
  return {
    taskId: id,
    claimId,
    type,
    attempt,
    timeoutSeconds,
    secretId,
    key,
    environment,
    driver,
    settings,
    credentials,
    value,
    previousValue,
    earlierCandidates: [...earlierCandidates],
  };
}

/** What the gateway is given; undefined for a task that ends here, since its secret is gone or cannot be read. */
async function contentOrEnd(
  call: Call,
  task: ClaimedTask,
  { logger, work }: Pick<GatewayCore, "logger" | "work">,
): Promise<TaskContent | undefined> {
  try {
    const content = await work.content(call, task);
    if (content === undefined) await cancel(call, task);
    return content;
  } catch (err) {
    if (toRefusal(err).errorCode !== "INTERNAL_ERROR") throw err;
    // A secret that is damaged must not keep all others of the environment waiting.
    logger.error({ err, task_id: task.id }, "a task cannot be read and has failed");
    await giveUp(call, task, work);
    return undefined;
  }
}

async function cancel(call: Call, task: ClaimedTask): Promise<void> {
  await cancelClaimed(call.em, task);
  call.alsoRecord("task.cancel", { id: task.id, details: auditedOf(task) }, true);
}

async function giveUp(call: Call, task: ClaimedTask, work: GatewayCore["work"]): Promise<void> {
  const where = new Conditions()
    .add("t.id = ?", task.id)
    .add("t.organization_id = ?", task.organizationId)
    .add("t.claim_id = ?", task.claimId);
  const error = "what it takes cannot be read";
  const ending = { status: "failed", error, nextGatewayId: null, permanent: true, unchanged: true } as const;
  const ended = await endBadly(call.em, where, ending);
  await work.failed(call.em, ended);
  call.alsoRecord("task.complete", { id: task.id, details: { ...auditedOf(task), status: "failed", error } }, true);
}
