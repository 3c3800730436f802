import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { conflict, toRefusal } from "../errors.ts";
import { queueTask } from "../gateways/task-routing.ts";
import { gatewayTopic } from "../gateways/task-streams.ts";
import { asSystem } from "../jobs.ts";
import { lockSecret } from "../secrets/find-secret.ts";
import type { Secret } from "../secrets/secret.ts";
import { inSystemWork, type Work } from "../system-work.ts";
import { type DueConfig, type DueRotation, stillDue } from "./due.ts";
import { noteQueued, rotateHere } from "./execution.ts";
import { noteFailed } from "./failures.ts";
import { isAppliedByNobody } from "./providers.ts";
import type { ServerTasks } from "./server-tasks.ts";

/** What rotations begin with. */
export interface RotationCore extends Pick<Core, "audit" | "config" | "db" | "logger" | "seal" | "wakes"> {
  readonly serverTasks: ServerTasks;
}

const shareAtOnce = "select from environment_lock where organization_id = $1 and environment = $2 for share nowait";

const bySystem = { requestedBy: "system", changeReason: "" } as const;

/**
 * Begins the rotation of a secret that was taken: the whole of it where nothing outside has to be told, else a task.
 * Whatever goes wrong is its own: a secret that cannot be read has failed, and all else is tried again soon.
 */
export async function beginDue(core: RotationCore, due: DueRotation): Promise<void> {
  try {
    await begin(core, due);
  } catch (err) {
    const { errorCode } = toRefusal(err);
    // Somebody else rotates it at this moment, or has changed how.
    if (errorCode === "RESOURCE_CONFLICT") return;
    const about = { err, secret_id: due.secretId };
    if (errorCode !== "INTERNAL_ERROR") {
      core.logger.warn(about, "a rotation that is due could not begin and will be tried again");
      return;
    }
    core.logger.error(about, "a rotation that is due cannot begin and has failed");
    await giveUp(core, due);
  }
}

function begin(core: RotationCore, due: DueRotation): Promise<void> {
  const { gatewayEnvironment, provider } = due;
  if (gatewayEnvironment !== null) return queueForGateway(core, due, gatewayEnvironment);
  return isAppliedByNobody(provider) ? rotateNow(core, due) : queueForServer(core, due);
}

async function rotateNow({ db, audit, seal }: RotationCore, due: DueRotation): Promise<void> {
  await inSystemWork({ db, audit }, due.organizationId, async (work) => {
    const { secret, settings, now } = await lockDue(work, due);
    const { configId: id, secretId, organizationId } = due;
    await rotateHere({ ...work, now }, seal, secret, { id, secretId, organizationId, settings }, bySystem);
  });
}

/** The task comes before the secret is locked, as with whoever asks for a rotation, or completes one. */
async function queueForServer({ db, audit, serverTasks }: RotationCore, due: DueRotation): Promise<void> {
  const { id } = await inSystemWork({ db, audit }, due.organizationId, async (work) => {
    const task = await serverTasks.queue(work.em, { ...due, ...bySystem });
    await lockDue(work, due);
    await noteQueued(work, due);
    return task;
  });
  serverTasks.start(id);
}

/** An environment that is being failed over is not waited for: all that is due in it would keep others waiting. */
async function queueForGateway(
  { db, audit, wakes }: RotationCore,
  due: DueRotation,
  environment: string,
): Promise<void> {
  const { gatewayId } = await inSystemWork({ db, audit }, due.organizationId, async (work) => {
    await run(work.em, shareAtOnce, [due.organizationId, environment]);
    const task = await queueTask(work.em, { ...due, environment, ...bySystem });
    await lockDue(work, due);
    await noteQueued(work, due);
    return task;
  });
  if (gatewayId !== null) wakes.wake(gatewayTopic(gatewayId));
}

/** Throws ABORTED when something has happened to the secret since it was taken. */
async function lockDue({ em }: Work, due: DueRotation): Promise<DueConfig & { secret: Secret }> {
  const secret = await lockSecret(em, due.secretId);
  const config = await stillDue(em, due);
  if (secret === null || config === undefined) throw conflict("the rotation is no longer due");
  return { ...config, secret };
}

async function giveUp({ db, audit, logger }: RotationCore, due: DueRotation): Promise<void> {
  const failure = { ...due, code: "invalid", message: "what it takes cannot be read", unchanged: true } as const;
  try {
    await asSystem(db, (em) => noteFailed(em, audit, [failure]));
  } catch (err) {
    logger.warn({ err, secret_id: due.secretId }, "a failed rotation could not be noted and will be tried again");
  }
}
