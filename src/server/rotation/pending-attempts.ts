import type { Database } from "../db/database.ts";
import { mostWaiting, type ServerTasks } from "./server-tasks.ts";

/** Begun at once: each asks the database. */
const batchSize = 100;

/** The server's own tasks that nobody has begun: whoever queued them has died, or has more than it can do. */
const selectPending = `select id from gateway_task
  where environment is null and status = 'pending' and not (id = any($1::uuid[])) order by created_at, id limit $2`;

/** Has this process do server's tasks that it does not know of, the oldest first; answers whether there may be more. */
export async function startPendingAttempts(db: Database, serverTasks: ServerTasks): Promise<boolean> {
  const { taken } = serverTasks;
  const limit = Math.min(batchSize, mostWaiting - taken.length);
  if (limit <= 0) return false;
  const pending = await db.query<{ id: string }>(selectPending, [taken, limit]);
  for (const { id } of pending) serverTasks.start(id);
  return pending.length === batchSize;
}
