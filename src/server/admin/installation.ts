import pg from "pg";
import { joinPostgres } from "../../engines/engines.ts";
import { ConfigError, readConfig } from "../config.ts";
import type { Queries } from "../db/database.ts";
import { type MasterKey, readMasterKey } from "../seal/master-key.ts";

/** What there is to administer on the server's host: its database and its master key. */
export interface Installation {
  readonly database: Queries;
  readonly masterKey: MasterKey;
}

/**
 * Opens the installation that the settings name, the same ones as the server's, for the time of `work`; a server may run
 * meanwhile. Throws ConfigError, EngineError and errors of the database, which explainStart() turns into a line.
 */
export async function withInstallation<Result>(work: (installation: Installation) => Promise<Result>): Promise<Result> {
  const config = readConfig();
  if (config.DATABASE_URL !== undefined) return withDatabase(config.DATABASE_URL, readMasterKey(config, false), work);
  const postgres = await joinPostgres(config.DATA_DIR);
  try {
    return await withDatabase(postgres.url, readMasterKey(config, false), work);
  } finally {
    await postgres.stop();
  }
}

async function withDatabase<Result>(
  connectionString: string,
  masterKey: MasterKey,
  work: (installation: Installation) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    connectionString,
    application_name: "holdfast-admin",
    connectionTimeoutMillis: 5000,
    query_timeout: 60_000,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query("select from pg_class where oid = to_regclass('organization_key')");
    if (rows.length === 0) throw new ConfigError("the database is empty; start the server on it first");
    const database: Queries = { query: async (text, values) => (await client.query(text, [...values])).rows };
    return await work({ database, masterKey });
  } finally {
    await client.end();
  }
}
