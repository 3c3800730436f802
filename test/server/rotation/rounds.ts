import type { RotationCore } from "../../../src/server/rotation/begin-due.ts";
import { lookAfterRotations } from "../../../src/server/rotation/scheduler.ts";
import { ServerTasks } from "../../../src/server/rotation/server-tasks.ts";
import type { Server } from "../../../src/server/server.ts";
import type { TestServer } from "../../harness/server.ts";

const made = new WeakMap<Server, RotationCore>();

/** What a replica's scheduler works with. */
export function rotationCoreOf(replica: Server): RotationCore {
  const found = made.get(replica) ?? { ...replica.core, serverTasks: new ServerTasks(replica.core) };
  made.set(replica, found);
  return found;
}

/** Lets the scheduler of a replica have rounds until nothing more is to be begun at once. */
export async function rotationRounds(replica: Server): Promise<void> {
  while (await lookAfterRotations(rotationCoreOf(replica)));
}

/** Lets the times of secrets have come a minute ago. */
export const makeDue = (server: TestServer, ...secretIds: readonly string[]) =>
  server.sql(
    `update secret set rotation_due_at = now() - interval '1 minute',
       next_rotation = case when rotation_enabled then now() - interval '1 minute' end
     where id = any($1)`,
    [secretIds],
  );

/** Lets the scheduler look at secrets again, though nothing is due that was not. */
export const lookAgain = (server: TestServer, ...secretIds: readonly string[]) =>
  server.sql("update secret set rotation_due_at = now() - interval '1 second' where id = any($1)", [secretIds]);
