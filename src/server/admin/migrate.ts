import { joinPostgres } from "../../engines/engines.ts";
import { readConfig } from "../config.ts";
import { Database } from "../db/database.ts";
import { createLogger } from "../logging.ts";
import { entities } from "../server.ts";

/**
 * Brings the schema up to date, as the start of a server does, and answers the names of the migrations that were missing.
 * Throws what withInstallation() throws.
 */
export async function migrate(): Promise<string[]> {
  const config = readConfig();
  if (config.DATABASE_URL !== undefined) return migrateAt(config.DATABASE_URL);
  const postgres = await joinPostgres(config.DATA_DIR);
  try {
    return await migrateAt(postgres.url);
  } finally {
    await postgres.stop();
  }
}

async function migrateAt(url: string): Promise<string[]> {
  const database = await Database.open({ url, poolSize: 2, entities, logger: createLogger("silent") });
  try {
    // Asked first whether there are migrations to apply, the ORM would make a database that is not there.
    await database.query("select", []);
    const missing = await database.orm.migrator.getPending();
    await database.migrate();
    return missing.map(({ name }) => name);
  } finally {
    await database.close();
  }
}
