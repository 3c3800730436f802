import { setTimeout as sleep } from "node:timers/promises";
import type { Assignment, Permit } from "../../targets/drivers/driver.ts";
import { systemEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { Conditions } from "../db/page.ts";
import { toRefusal } from "../errors.ts";
import { cancelClaimed, endBadly } from "../gateways/task-endings.ts";
import { auditedOf } from "../gateways/task-record.ts";
import { inSystemWork, type Work } from "../system-work.ts";
import { type Content, contentOf } from "./assignment.ts";
import type { RotationFailure } from "./failures.ts";
import { commitApplied, noteEnded } from "./outcome.ts";

/** A task of the server that is running by a claim of this process. */
interface Claimed {
  readonly id: string;
  readonly organizationId: string;
  readonly configId: string;
  readonly secretId: string;
  readonly attempt: number;
  readonly claimId: string;
  readonly requestedBy: string;
  readonly changeReason: string;
}

/** An attempt to rotate a secret that has begun: its candidate is kept, and counts as handed out. */
export interface Attempt {
  readonly task: Claimed;
  /** What it is applied by. */
  readonly driverName: string;
  readonly assignment: Assignment;
}

/** What came of an attempt: the value that is in use now, or why not. */
export type AttemptOutcome = { readonly value: string } | Pick<RotationFailure, "code" | "message" | "unchanged">;

/** What attempts are begun and ended with. */
export type AttemptCore = Pick<Core, "audit" | "config" | "db" | "logger" | "seal">;

/** Between two tries to write down what came of an attempt while the database is away. */
const pauseMs = 500;

/** Whoever else claims it at this moment is not waited for. */
const claimPending = `update gateway_task t set status = 'running', claim_id = gen_random_uuid(), claimed_at = now(),
    deadline_at = now() + make_interval(secs => $3)
  from (select id from gateway_task where id = $1 and organization_id = $2 and environment is null and status = 'pending'
    for update skip locked) free
  where t.id = free.id
  returning t.id, t.organization_id as "organizationId", t.config_id as "configId", t.secret_id as "secretId", t.attempt,
    t.claim_id as "claimId", t.requested_by as "requestedBy", t.change_reason as "changeReason"`;

/** Begins a pending task, unless somebody else has. A task that is about nothing any more, or cannot be read, ends here. */
export async function claimAttempt(
  core: AttemptCore,
  { id, organizationId }: Pick<Claimed, "id" | "organizationId">,
): Promise<Attempt | undefined> {
  return inSystemWork(core, organizationId, async (work) => {
    const values = [id, organizationId, core.config.TASK_TIMEOUT_SECONDS];
    const [task] = await run<Claimed>(work.em, claimPending, values);
    if (task === undefined) return undefined;
    const content = await contentOrEnd(work, core, task);
    return content && { task, driverName: content.driver, assignment: assignmentOf(task, content) };
  });
}

const assignmentOf = ({ id, attempt, secretId }: Claimed, content: Content): Assignment => ({
  taskId: id,
  attempt,
  secretId,
  key: content.key,
  environment: content.environment,
  settings: content.settings,
  credentials: content.credentials,
  value: content.value,
  previousValue: content.previousValue,
  earlierCandidates: content.earlierCandidates,
});

async function contentOrEnd(work: Work, core: AttemptCore, task: Claimed): Promise<Content | undefined> {
  try {
    const content = await contentOf(work, core.seal, { ...task, type: "rotate_secret", environment: null });
    if (content === undefined) {
      await cancelClaimed(work.em, task);
      work.alsoRecord("task.cancel", { id: task.id, details: auditedHere(task) });
    }
    return content;
  } catch (err) {
    if (toRefusal(err).errorCode !== "INTERNAL_ERROR") throw err;
    core.logger.error({ err, task_id: task.id }, "a task cannot be read and has failed");
    await fail(work, core, task, { code: "invalid", message: "what it takes cannot be read", unchanged: true });
    return undefined;
  }
}

/**
 * Writes down what came of an attempt, if the task still is running by its claim: what comes after its deadline changes
 * nothing, and is recorded as that. While the database is away it is tried again as long as the permit lasts, since what
 * a target has made itself is nowhere else.
 */
export async function settleAttempt(
  core: AttemptCore,
  { task }: Attempt,
  outcome: AttemptOutcome,
  permit: Permit,
): Promise<void> {
  const settle = (work: Work) =>
    "value" in outcome ? succeed(work, core, task, outcome.value) : fail(work, core, task, outcome);
  for (;;) {
    try {
      const isInTime = await inSystemWork(core, task.organizationId, settle);
      if (!isInTime) await recordLate(core, task, outcome);
      return;
    } catch (err) {
      if (toRefusal(err).errorCode !== "SERVICE_UNAVAILABLE" || permit.signal.aborted) throw err;
      core.logger.warn({ err, task_id: task.id }, "the end of a rotation could not be written yet");
      await sleep(pauseMs, undefined, { ref: false });
    }
  }
}

async function succeed(work: Work, { seal }: AttemptCore, task: Claimed, value: string): Promise<boolean> {
  const [ended] = await run(
    work.em,
    `update gateway_task set status = 'succeeded', finished_at = now()
     where id = $1 and organization_id = $2 and claim_id = $3 and status = 'running' returning 1`,
    [task.id, task.organizationId, task.claimId],
  );
  if (ended === undefined) return false;
  await commitApplied(work, seal, task, value);
  return true;
}

async function fail(
  { em }: Work,
  { audit, logger }: AttemptCore,
  task: Claimed,
  failure: Exclude<AttemptOutcome, { value: string }>,
): Promise<boolean> {
  const where = new Conditions()
    .add("t.id = ?", task.id)
    .add("t.organization_id = ?", task.organizationId)
    .add("t.claim_id = ?", task.claimId);
  const { code, message, unchanged } = failure;
  const ended = await endBadly(em, where, { status: "failed", error: message, nextGatewayId: null });
  if (ended.length === 0) return false;
  await noteEnded(em, audit, [{ ...task, ...failure }]);
  logger.warn({ secret_id: task.secretId, task_id: task.id, code, message, unchanged }, "a rotation failed");
  return true;
}

/** A commit of which nobody heard is no late one: the task has ended by this very claim. */
async function recordLate({ db, audit, logger }: AttemptCore, task: Claimed, outcome: AttemptOutcome): Promise<void> {
  const [found] = await db.query<{ status: string }>(
    "select status from gateway_task where id = $1 and organization_id = $2 and claim_id = $3",
    [task.id, task.organizationId, task.claimId],
  );
  const reported = "value" in outcome ? "succeeded" : "failed";
  if (found?.status === reported) return;
  logger.warn({ secret_id: task.secretId, task_id: task.id, reported }, "a rotation ended after its deadline");
  await audit.write(
    systemEvent({
      organizationId: task.organizationId,
      action: "task.late_report",
      outcome: "failure",
      resourceType: "task",
      resourceId: task.id,
      resourceName: null,
      reason: "RESOURCE_CONFLICT",
      details: { ...auditedHere(task), claim_id: task.claimId, reported },
    }),
  );
}

/** As what gateways do, told of the server. */
const auditedHere = (task: Claimed) => auditedOf({ ...task, type: "rotate_secret", gatewayId: null });
