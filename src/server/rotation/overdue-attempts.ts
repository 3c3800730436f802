import type { Core } from "../context.ts";
import { Conditions } from "../db/page.ts";
import { endBadly, timeoutOf } from "../gateways/task-endings.ts";
import { taskTopic } from "../gateways/task-streams.ts";
import { asSystem } from "../jobs.ts";
import { noteEnded } from "./outcome.ts";

type OverdueCore = Pick<Core, "audit" | "config" | "db" | "logger" | "wakes">;

/** Ended in one round at most. */
const batchSize = 100;

const selectOverdue = `select id from gateway_task
  where environment is null and status = 'running' and deadline_at <= now() order by deadline_at limit $1`;

/**
 * Ends the server's own attempts that have been running for too long, as those of gateways end (G-8.23): whoever made
 * them has died, or hangs, and nobody knows what their targets have. Each is a transaction of its own: one that cannot be
 * ended yet keeps no other from it. Answers whether there may be more.
 */
export async function endOverdueAttempts(core: OverdueCore): Promise<boolean> {
  const overdue = await core.db.query<{ id: string }>(selectOverdue, [batchSize]);
  let ended = 0;
  for (const { id } of overdue) {
    try {
      ended += await endOverdue(core, id);
    } catch (err) {
      core.logger.warn({ err, task_id: id }, "a rotation that is overdue could not be ended yet");
    }
  }
  return ended === batchSize;
}

async function endOverdue({ audit, config, db, logger, wakes }: OverdueCore, taskId: string): Promise<number> {
  const message = `timed out after ${config.TASK_TIMEOUT_SECONDS} s`;
  // What is being completed at this moment is left alone: a result that comes before the end counts.
  const where = new Conditions().add(
    "t.id = (select o.id from gateway_task o where o.id = ? and o.status = 'running' for update skip locked)",
    taskId,
  );
  const ended = await asSystem(db, async (em) => {
    const tasks = await endBadly(em, where, { status: "timed_out", error: message, nextGatewayId: null });
    await noteEnded(
      em,
      audit,
      tasks.map((task) => ({ ...task, code: "timed_out", message })),
    );
    await audit.record(em, tasks.map(timeoutOf));
    return tasks;
  });
  for (const task of ended) {
    logger.warn({ secret_id: task.secretId, task_id: task.id }, "a rotation timed out");
    wakes.wake(taskTopic(task));
  }
  return ended.length;
}
