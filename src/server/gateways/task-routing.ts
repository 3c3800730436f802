import { type EntityManager, run } from "../db/database.ts";
import { Conditions } from "../db/page.ts";
import { conflict } from "../errors.ts";
import { asSystem } from "../jobs.ts";
import { type Environment, shareEnvironment } from "./environment-lock.ts";
import type { GatewayCore } from "./gateway-core.ts";
import type { FailedTask } from "./gateway-work.ts";
import { endBadly, timeoutOf } from "./task-endings.ts";
import { gatewayTopic } from "./task-streams.ts";

/** A rotation to be done by a gateway. */
export interface TaskDraft extends Environment {
  readonly configId: string;
  readonly secretId: string;
  /** The id of an identity, or "system". */
  readonly requestedBy: string;
  readonly changeReason: string;
}

/** A task that was queued. */
export interface QueuedTask {
  readonly id: string;
  /** None while no gateway is active: the next one that becomes active gets it. */
  readonly gatewayId: string | null;
  readonly createdAt: Date;
}

const maxAttempts = 3;

/** Ended in one transaction at most: who takes an environment over waits for it. */
const batchSize = 500;

/** In one statement: however many wait, an environment can be failed over within the time that a statement may take. */
const mostMoved = 5000;

/**
 * Queues a rotation for the gateway that is active, and still will be when this commits. Throws ABORTED while another one
 * of the same configuration has not ended. Whoever calls wakes the gateway after the commit.
 */
export async function queueTask(em: EntityManager, draft: TaskDraft): Promise<QueuedTask> {
  const { organizationId, environment, configId, secretId, requestedBy, changeReason } = draft;
  const holder = await shareEnvironment(em, draft);
  const [queued] = await run<Omit<QueuedTask, "createdAt"> & { createdAt: string }>(
    em,
    `insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts,
       requested_by, change_reason)
     values ($1, $2, $3, 'rotate_secret', $4, $5, $6, $7, $8) on conflict do nothing
     returning id, gateway_id as "gatewayId", created_at as "createdAt"`,
    [
      organizationId,
      environment,
      holder?.gatewayId ?? null,
      configId,
      secretId,
      maxAttempts,
      requestedBy,
      changeReason,
    ],
  );
  if (queued === undefined) throw conflict("another rotation of this secret is running");
  return { ...queued, createdAt: new Date(queued.createdAt) };
}

/**
 * Gives the rotations of an environment to who holds it now, in the transaction that has locked it (G-8.9). What was
 * running ends, as nobody may report it any more, and is tried again where it may be; `ended` are those.
 */
export async function rerouteTasks(
  em: EntityManager,
  { organizationId, environment }: Environment,
  holderId: string | null,
): Promise<{ moved: number; ended: FailedTask[] }> {
  const moved = await movePending(em, { organizationId, environment }, holderId);
  // Whoever is active has no more checks to make of what it does itself.
  await run(
    em,
    `update gateway_task set status = 'cancelled', finished_at = now()
     where gateway_id = $1 and organization_id = $2 and status = 'pending' and type = 'verify_secret'`,
    [holderId, organizationId],
  );
  const rotations = ofEnvironment({ organizationId, environment }).require("t.type = 'rotate_secret'");
  const ended = await endBadly(em, rotations, {
    status: "timed_out",
    error: "the gateway was fenced before it reported",
    nextGatewayId: holderId,
  });
  return { moved, ended };
}

/** Gives who holds a locked environment the rotations that nobody has begun; answers how many were not its own already. */
async function movePending(
  em: EntityManager,
  { organizationId, environment }: Environment,
  holderId: string | null,
): Promise<number> {
  const waiting = await run<{ id: string }>(
    em,
    `select id from gateway_task where organization_id = $1 and environment = $2 and status = 'pending'
       and type = 'rotate_secret' and gateway_id is distinct from $3`,
    [organizationId, environment, holderId],
  );
  let moved = 0;
  for (let first = 0; first < waiting.length; first += mostMoved) {
    const ids = waiting.slice(first, first + mostMoved).map(({ id }) => id);
    // What is cancelled at this moment is no more to be moved.
    const rows = await run(
      em,
      "update gateway_task set gateway_id = $1 where id = any($2::uuid[]) and status = 'pending' returning 1",
      [holderId, ids],
    );
    moved += rows.length;
  }
  return moved;
}

/**
 * Ends the tasks that have been running for too long (G-8.23), and answers how many. Each environment is a transaction
 * of its own: what cannot be done in one, since it is being failed over, is left to the next round.
 */
export async function endOverdueTasks(core: GatewayCore): Promise<number> {
  const environments = await core.db.query<Environment>(
    `select distinct organization_id as "organizationId", environment from gateway_task
     where status = 'running' and deadline_at <= now() and environment is not null limit $1`,
    [batchSize],
  );
  let ended = 0;
  for (const environment of environments) {
    try {
      ended += await endOverdueOf(core, environment);
    } catch (err) {
      core.logger.warn({ err, environment: environment.environment }, "tasks that are overdue could not be ended yet");
    }
  }
  return ended;
}

async function endOverdueOf({ db, audit, work, timing, wakes }: GatewayCore, environment: Environment) {
  // What is being completed at this moment is left alone: a report that comes before the end counts.
  const overdue = ofEnvironment(environment).add(
    `t.id in (select o.id from gateway_task o where o.organization_id = $1 and o.environment = $2
       and o.status = 'running' and o.deadline_at <= now() order by o.id limit ? for update skip locked)`,
    batchSize,
  );
  const { holder, ended } = await asSystem(db, async (em) => {
    const holder = await shareEnvironment(em, environment);
    const ended = await endBadly(em, overdue, {
      status: "timed_out",
      error: `timed out after ${timing.taskTimeout} s`,
      nextGatewayId: holder?.gatewayId ?? null,
    });
    await work.failed(em, ended);
    await audit.record(em, ended.map(timeoutOf));
    return { holder, ended };
  });
  if (holder !== undefined && ended.some(({ retryId }) => retryId !== null)) wakes.wake(gatewayTopic(holder.gatewayId));
  return ended.length;
}

const ofEnvironment = ({ organizationId, environment }: Environment) =>
  new Conditions().add("t.organization_id = ?", organizationId).add("t.environment = ?", environment);
