import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { EngineError, explain } from "./engine-error.ts";
import { FolderInUse, holdFolder } from "./folder-hold.ts";
import { type PostgresEngine, startPostgres } from "./postgres.ts";
import { postgresAccount } from "./postgres-account.ts";
import { postgresUrls } from "./postgres-role.ts";
import { makePrivateFolder } from "./private-folder.ts";

/** A service that has just started on the folder may still be on its way. */
const patienceMs = 10_000;

/**
 * The database of `dataFolder` for another program on the same host: that of the service which runs on the folder, else
 * one started until `stop`, during which no service starts there. Throws EngineError; never makes a database.
 */
export async function joinPostgres(dataFolder: string): Promise<Pick<PostgresEngine, "url" | "stop">> {
  const nothing = new EngineError(`there is no database in ${resolve(dataFolder)}; set SERVICE_DATA_DIR`);
  if (!existsSync(dataFolder)) throw nothing;
  try {
    const folder = makePrivateFolder(dataFolder, postgresAccount(join(dataFolder, "postgres")));
    const home = join(folder, "postgres");
    const cluster = clusterIn(home);
    if (cluster === undefined) throw nothing;
    return await startHeld(folder, home).catch((error: unknown) => {
      if (error instanceof FolderInUse) return findRunning(home, cluster);
      throw error;
    });
  } catch (error) {
    throw explain(error, dataFolder);
  }
}

function clusterIn(home: string): string | undefined {
  const major = existsSync(home) ? readdirSync(home).find((name) => /^\d+$/.test(name)) : undefined;
  return major === undefined ? undefined : join(home, major);
}

async function startHeld(folder: string, home: string) {
  const hold = holdFolder(folder);
  try {
    const postgres = await startPostgres(home);
    return { url: postgres.url, stop: () => postgres.stop().finally(() => hold.release()) };
  } catch (error) {
    hold.release();
    throw error;
  }
}

async function findRunning(home: string, cluster: string) {
  for (const start = performance.now(); performance.now() - start < patienceMs; await sleep(100)) {
    const url = urlOf(home, cluster);
    if (url !== undefined && (await answers(url))) return { url, stop: async () => {} };
  }
  throw new EngineError(`the database in ${home} is in use, and does not answer; see ${join(home, "postgres.log")}`);
}

/** By what PostgreSQL says in its pid file, whose fifth line is the folder of its socket; undefined until it runs. */
function urlOf(home: string, cluster: string): string | undefined {
  try {
    const socketFolder = readFileSync(join(cluster, "postmaster.pid"), "utf8").split("\n")[4] ?? "";
    const password = readFileSync(join(home, "superuser.secret"), "utf8").trim();
    return postgresUrls(socketFolder, password).url;
  } catch {
    return undefined;
  }
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 2000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end();
  }
}
