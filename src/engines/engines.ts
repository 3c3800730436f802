import { join } from "node:path";
import { explain } from "./engine-error.ts";
import { holdFolder } from "./folder-hold.ts";
import { type PostgresEngine, type PostgresOptions, startPostgres } from "./postgres.ts";
import { postgresAccount } from "./postgres-account.ts";
import { makePrivateFolder } from "./private-folder.ts";
import { startValkey, type ValkeyEngine } from "./valkey.ts";

export { EngineError } from "./engine-error.ts";
export { joinPostgres } from "./join-postgres.ts";
export { type PostgresEngine, type PostgresOptions, startPostgres } from "./postgres.ts";
export { startValkey, type ValkeyEngine, type ValkeyOptions } from "./valkey.ts";

/** PostgreSQL and Valkey for one service on one machine. */
export interface Engines {
  readonly databaseUrl: string;
  /** The same database for what only a superuser may do. */
  readonly superuserUrl: string;
  readonly redisUrl: string;
  stop(): Promise<void>;
}

/**
 * Starts both engines on `dataFolder`, which it makes on the first start; they end with this process, however it ends.
 * Throws EngineError for a folder that cannot be used or is in use, and for a machine that cannot run them.
 */
export async function startEngines(dataFolder: string, options: PostgresOptions = {}): Promise<Engines> {
  try {
    const folder = makePrivateFolder(dataFolder, postgresAccount(join(dataFolder, "postgres")));
    // For both at once: of two services that start together, each could otherwise get one engine.
    const hold = holdFolder(folder);
    try {
      const [postgres, valkey] = await startBoth(folder, options);
      const stop = async () => {
        await Promise.all([postgres.stop(), valkey.stop()]);
        hold.release();
      };
      return { databaseUrl: postgres.url, superuserUrl: postgres.superuserUrl, redisUrl: valkey.url, stop };
    } catch (error) {
      hold.release();
      throw error;
    }
  } catch (error) {
    throw explain(error, dataFolder);
  }
}

async function startBoth(folder: string, options: PostgresOptions): Promise<[PostgresEngine, ValkeyEngine]> {
  const [postgres, valkey] = await Promise.allSettled([
    startPostgres(join(folder, "postgres"), options),
    startValkey(join(folder, "valkey"), options),
  ]);
  if (postgres.status === "rejected") {
    if (valkey.status === "fulfilled") await valkey.value.stop();
    throw postgres.reason;
  }
  if (valkey.status === "rejected") {
    await postgres.value.stop();
    throw valkey.reason;
  }
  return [postgres.value, valkey.value];
}
