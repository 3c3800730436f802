import pg from "pg";
import { beat, claim, complete, floorGateways, floorTasks } from "./floor-gateways.ts";
import { pick } from "./floor-tables.ts";
import { type StatementJob, Stopwatch, serveJobs } from "./load.ts";

// A process that runs statements through pg, so many works at a time, over as many connections as a server has.

const connections = 16;
let pool: pg.Pool | undefined;

serveJobs(async (job: StatementJob) => {
  pool ??= newPool(job.databaseUrl);
  const work = await works[job.work](pool);
  const stopwatch = new Stopwatch(job);
  const keepBusy = async (n: number) => {
    let beganAt: number;
    do {
      beganAt = performance.now();
      await work(n);
    } while (stopwatch.answered(beganAt));
  };
  await Promise.all(Array.from({ length: job.inFlight }, (_, n) => keepBusy(n)));
  return stopwatch.seen;
});

type Work = (n: number) => Promise<unknown>;

const works: Record<StatementJob["work"], (pool: pg.Pool) => Promise<Work>> = {
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
};

async function inTransaction(pool: pg.Pool, statements: readonly pg.QueryConfig[]): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    for (const statement of statements) await client.query(statement);
    await client.query("commit");
  } finally {
    client.release();
  }
}

function newPool(connectionString: string): pg.Pool {
  const made = new pg.Pool({ connectionString, max: connections });
  made.on("error", () => {});
  return made;
}
