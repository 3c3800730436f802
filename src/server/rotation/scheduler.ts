import { attempting, Rounds } from "../rounds.ts";
import { beginDue, type RotationCore } from "./begin-due.ts";
import { takeDue } from "./due.ts";
import { endOverdueAttempts } from "./overdue-attempts.ts";
import { startPendingAttempts } from "./pending-attempts.ts";

/** Between two rounds: when there is nothing more to do, and when there is, which may be what fails each time. */
const pauses = { usualMs: 2000, busyMs: 50 };
/** Taken at once: few enough to be begun long before anybody else may take them. */
const batchSize = 100;
/** Of the connections to the database, those that rotations which are due may use at a time: one in so many. */
const shareOfPool = 4;

/** Begins the rotations that are due. All replicas that run jobs do it, and each takes what no other has taken. */
export const rotationScheduler = (core: RotationCore): Rounds =>
  new Rounds(async (signal) => ((await lookAfterRotations(core, signal)) ? pauses.busyMs : pauses.usualMs));

/**
 * One round; answers whether there may be more to do at once. What cannot be done is logged and left to the next round,
 * and keeps nothing else from being done.
 */
export async function lookAfterRotations(core: RotationCore, signal?: AbortSignal): Promise<boolean> {
  const attempt = attempting(core.logger, signal);
  const rest = [
    await attempt("ending overdue rotations", () => endOverdueAttempts(core)),
    await attempt("beginning rotations that are due", () => beginAllDue(core)),
    await attempt("starting rotations that wait", () => startPendingAttempts(core.db, core.serverTasks)),
  ];
  return rest.includes(true);
}

/** Begins a batch of those that are due, a few at a time; answers whether it was full. */
async function beginAllDue(core: RotationCore): Promise<boolean> {
  const { due, seen } = await takeDue(core.db, batchSize);
  const waiting = due.values();
  const beginOneByOne = async () => {
    for (const each of waiting) await beginDue(core, each);
  };
  const atOnce = Math.max(1, Math.floor(core.config.DATABASE_POOL_SIZE / shareOfPool));
  await Promise.all(Array.from({ length: atOnce }, beginOneByOne));
  return seen === batchSize;
}
