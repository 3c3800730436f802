import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { startPostgres } from "../src/engines/engines.ts";
import type { PostgresUrls } from "../src/engines/postgres-role.ts";
import { Database } from "../src/server/db/database.ts";
import { createLogger } from "../src/server/logging.ts";
import { entities } from "../src/server/server.ts";
import { databaseUrl, dropDatabase, templateName } from "./harness/databases.ts";

let end: () => Promise<void>;

/**
 * One PostgreSQL for the run, with one migrated database that every test file clones. With a superuser's URL in
 * HOLDFAST_TEST_SUPERUSER_URL it is that server, as for a look whether an older version will do: one run at a time.
 */
export async function mochaGlobalSetup(): Promise<void> {
  const given = process.env["HOLDFAST_TEST_SUPERUSER_URL"];
  const { url, superuserUrl } = given === undefined ? await startOwn() : await useGiven(given);
  process.env["HOLDFAST_TEST_DATABASE_URL"] = url;
  process.env["HOLDFAST_TEST_SUPERUSER_URL"] = superuserUrl;
  const client = new pg.Client(databaseUrl("postgres"));
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
  await end();
}

async function startOwn(): Promise<PostgresUrls> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
  // Several files run at once, each with up to three replicas.
  const postgres = await startPostgres(folder, { settings: { max_connections: "300" } });
  end = async () => {
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return postgres;
}

/** With a role for the tests, which may do what the service's own may. */
async function useGiven(superuserUrl: string): Promise<PostgresUrls> {
  const [role, password] = ["holdfast_test", randomBytes(16).toString("hex")];
  const superuser = new pg.Client(superuserUrl);
  await superuser.connect();
  await superuser.query(`drop database if exists ${templateName} with (force)`);
  await superuser.query(`do $$ begin if to_regrole('${role}') is null then create role ${role}; end if; end $$`);
  await superuser.query(`alter role ${role} login createdb nosuperuser password '${password}'`);
  await superuser.end();
  end = () => dropDatabase(databaseUrl(templateName));
  const url = new URL(superuserUrl);
  [url.username, url.password] = [role, password];
  return { url: url.href, superuserUrl };
}
