import { randomBytes } from "node:crypto";
import pg from "pg";

export const templateName = "holdfast_template";

/** The URL of a database on the PostgreSQL of this test run, as the service's own role. */
export const databaseUrl = (name: string): string => urlOf("HOLDFAST_TEST_DATABASE_URL", name);

/** The same database for what only a superuser may do. */
export const superuserUrl = (url: string): string => urlOf("HOLDFAST_TEST_SUPERUSER_URL", url.split("/").at(-1) ?? "");

function urlOf(variable: string, name: string): string {
  const url = process.env[variable];
  if (url === undefined) throw new Error("run the tests with mocha and its configuration: it starts PostgreSQL");
  return url.replace(/\/[^/]*$/, `/${name}`);
}

/** A database of its own, cloned from the migrated template in some 30 ms; from "template0" it is empty. */
export async function cloneDatabase(template = templateName): Promise<string> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await atServer(databaseUrl("postgres"), async (client) => {
    // Two test files that clone at once would each keep the other out of the template.
    await client.query("select pg_advisory_lock(1)");
    await client.query(`create database ${name} template ${template}`);
  });
  return databaseUrl(name);
}

export async function dropDatabase(url: string): Promise<void> {
  const name = url.split("/").at(-1);
  // Autovacuum may be at work in it, which only a superuser sends away.
  await atServer(superuserUrl("postgres"), (client) => client.query(`drop database if exists ${name} with (force)`));
}

async function atServer(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
