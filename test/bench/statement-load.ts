import type pg from "pg";
import { beat, claim, complete, floorGateways, floorTasks } from "./floor-gateways.ts";
import { inTransaction, newPool } from "./floor-pool.ts";
import { floorSecrets, rotation, sync, toldRotation } from "./floor-rotations.ts";
import { pick } from "./floor-tables.ts";
import { HttpConnection } from "./http-connection.ts";
import { type StatementJob, Stopwatch, serveJobs } from "./load.ts";
import { post } from "./subjects.ts";

// A process that runs statements through pg, so many works at a time, over as many connections as a server has, and sends
// what belongs between them.

let pool: pg.Pool | undefined;

serveJobs(async (job: StatementJob) => {
  pool ??= newPool(job.databaseUrl);
  const { ports } = job;
  const connections = await Promise.all(
    ports.map((port) => connectionsTo(port, Math.ceil(job.inFlight / ports.length))),
  );
  const all = connections.flat();
  const tell: Tell = (n) => sendTo(all[n] as HttpConnection);
  const work = await works[job.work](pool, tell);
  const stopwatch = new Stopwatch(job);
  const keepBusy = async (n: number) => {
    let beganAt: number;
    do {
      beganAt = performance.now();
      await work(n);
    } while (stopwatch.answered(beganAt));
  };
  try {
    await Promise.all(Array.from({ length: job.inFlight }, (_, n) => keepBusy(n)));
  } finally {
    for (const each of all) each.close();
  }
  return stopwatch.seen;
});

/** The n-th of those that are done at a time. */
type Work = (n: number) => Promise<unknown>;

/** Has the n-th send an event and wait for its answer. */
type Tell = (n: number) => Promise<void>;

const works: Record<StatementJob["work"], (pool: pg.Pool, tell: Tell) => Promise<Work>> = {
  /** Each of a gateway of its own. */
  async heartbeat(pool) {
    const gateways = await floorGateways(pool);
    return (n) => pool.query(beat(gateways[n % gateways.length] as string));
  },
  async task(pool) {
    const tasks = await floorTasks(pool);
    return async () => {
      const task = pick(tasks);
      await inTransaction(pool, claim(task));
      await inTransaction(pool, complete(task));
    };
  },
  async rotation(pool) {
    const secrets = await floorSecrets(pool);
    return () => inTransaction(pool, rotation(pick(secrets)));
  },
  /** Told twice: to take the value, and whether it has it. */
  async toldRotation(pool, tell) {
    const secrets = await floorSecrets(pool);
    return async (n) => {
      const { queue, begin, end } = toldRotation(pick(secrets));
      await inTransaction(pool, queue);
      await inTransaction(pool, begin);
      await tell(n);
      await tell(n);
      await inTransaction(pool, end);
    };
  },
  async sync(pool, tell) {
    const secrets = await floorSecrets(pool);
    return async (n) => {
      const { begin, end } = sync(pick(secrets));
      await inTransaction(pool, begin);
      await tell(n);
      await inTransaction(pool, end);
    };
  },
};

const connectionsTo = (port: number, count: number): Promise<HttpConnection[]> =>
  Promise.all(Array.from({ length: count }, () => HttpConnection.open(port)));

/** About as long as an event with its value. */
const event = post("/", { secret_id: "0".repeat(36), filling: "x".repeat(150) });

function sendTo(connection: HttpConnection): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.exchange(event, () => resolve(), reject);
  });
}
