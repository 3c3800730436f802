import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { type PostgresEngine, startPostgres } from "../src/engines/engines.ts";
import { Database } from "../src/server/db/database.ts";
import { createLogger } from "../src/server/logging.ts";
import { entities } from "../src/server/server.ts";
import { databaseUrl, templateName } from "./harness/databases.ts";

let folder: string;
let postgres: PostgresEngine;

/** One PostgreSQL for the run, with one migrated database that every test file clones. */
export async function mochaGlobalSetup(): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
  postgres = await startPostgres(folder);
  process.env["HOLDFAST_TEST_DATABASE_URL"] = postgres.url;
  process.env["HOLDFAST_TEST_SUPERUSER_URL"] = postgres.superuserUrl;
  const client = new pg.Client(postgres.url);
  await client.connect();
  await client.query(`create database ${templateName}`);
  await client.end();
  const template = await Database.open({
    url: databaseUrl(templateName),
    poolSize: 2,
    entities,
    logger: createLogger("silent"),
  });
  await template.migrate();
  await template.close();
}

export async function mochaGlobalTeardown(): Promise<void> {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}
