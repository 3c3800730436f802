import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { TestServer } from "../../harness/server.ts";

/** A transaction of somebody else, which is open while `work` runs, and is rolled back unless that commits it. */
export async function withOpenTransaction<T>(server: TestServer, work: (session: pg.Client) => Promise<T>): Promise<T> {
  const session = new pg.Client(server.databaseUrl);
  await session.connect();
  try {
    await session.query("begin");
    return await work(session);
  } finally {
    await session.end();
  }
}

/** Waits until somebody waits for what the session has locked. */
export async function isWaitedFor(session: pg.Client): Promise<void> {
  for (let waiting = 0; waiting === 0; ) {
    await sleep(5);
    // Otherwise those who have connected since the first look would not be seen.
    await session.query("select pg_stat_clear_snapshot()");
    const { rows } = await session.query(
      "select count(*)::int as waiting from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))",
    );
    waiting = rows[0].waiting;
  }
}
