import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { EngineError } from "./engine-error.ts";
import type { Account } from "./postgres-account.ts";
import type { Binaries } from "./postgres-binaries.ts";
import type { Cluster } from "./postgres-cluster.ts";
import { clearLeftovers } from "./postgres-leftovers.ts";
import type { ServerLog } from "./postgres-log.ts";
import { type PostgresUrls, prepareRole } from "./postgres-role.ts";
import type { Run } from "./supervise.ts";
import { spawnWatched, type WatchedProcess } from "./watched-process.ts";

/** A cluster and how it is served. */
export interface Server {
  readonly binaries: Binaries;
  readonly cluster: Cluster;
  readonly run: string;
  readonly log: ServerLog;
  readonly urls: PostgresUrls;
  readonly settings: Readonly<Record<string, string>>;
  readonly account: Account | undefined;
}

/** Starts a postmaster and waits until its database answers. Throws EngineError when it ends before. */
export async function launchPostgres({ binaries, cluster, run, log, urls, settings, account }: Server): Promise<Run> {
  await clearLeftovers(cluster.data, run);
  const args = ["-D", cluster.data, "-k", run, "-p", "5432"];
  for (const [name, value] of Object.entries(settings)) args.push("-c", `${name}=${value}`);

  for (let tries = 0; ; tries++) {
    const mark = log.mark();
    const server = spawnWatched(binaries.postgres, args, log.fd, account);
    let early: string | undefined;
    try {
      early = await untilReady(urls.superuserUrl, server);
      if (early === undefined) await prepareRole(urls);
    } catch (error) {
      await end(server);
      throw error instanceof EngineError ? error : log.explain("the database holdfast could not be prepared", mark);
    }
    if (early === undefined) {
      server.unref();
      return { pid: server.pid, ended: server.ended, end: () => end(server) };
    }
    // The backends of a server that was killed need a moment to notice.
    const lingering = log.since(mark).includes("shared memory block");
    if (!lingering || tries === 100) throw log.explain(`PostgreSQL ended (${early}) before it was ready`, mark);
    await sleep(100);
  }
}

/** Undefined once the database answers, else how the server ended; one in recovery gets the time it needs. */
async function untilReady(url: string, server: WatchedProcess): Promise<string | undefined> {
  const life: { end?: string } = {};
  void server.ended.then((how) => (life.end = how));
  while (life.end === undefined) {
    const code = await tryConnect(url);
    if (code === undefined) return undefined;
    if (code === "3D000") await createDatabase(url);
    else if (code === "28P01") throw new EngineError("superuser.secret is not the password of the cluster beside it");
    else await sleep(10);
  }
  return life.end;
}

async function tryConnect(connectionString: string): Promise<string | undefined> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 5000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return undefined;
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : "unknown";
  } finally {
    await client.end();
  }
}

async function createDatabase(url: string): Promise<void> {
  const client = new Client({ connectionString: url.replace(/\/holdfast$/, "/postgres") });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query("CREATE DATABASE holdfast");
  } finally {
    await client.end();
  }
}

/** Never with SIGTERM, which waits for clients to leave. */
async function end(server: WatchedProcess): Promise<void> {
  server.ref();
  for (const signal of ["SIGINT", "SIGQUIT", "SIGKILL"] as const) {
    server.kill(signal);
    const patience = new AbortController();
    const waited = sleep(10_000, "waited", { signal: patience.signal }).catch(() => {});
    const outcome = await Promise.race([server.ended, waited]);
    patience.abort();
    if (outcome !== "waited") return;
  }
}
