import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { Database } from "../../src/server/db/database.ts";
import { createLogger } from "../../src/server/logging.ts";
import { entities } from "../../src/server/server.ts";
import { databaseUrl, dropDatabase } from "../harness/databases.ts";

describe("A migration", () => {
  it("takes as long as it takes, whatever the time limits of calls", async () => {
    const url = databaseUrl(`test_${randomBytes(6).toString("hex")}`);
    const admin = new pg.Client(databaseUrl("postgres"));
    await admin.connect();
    await admin.query(`create database ${url.split("/").at(-1)} template template0`);
    await admin.end();
    const other = new pg.Client(url);
    await other.connect();
    const db = await Database.open({ url, poolSize: 2, entities, logger: createLogger("silent") });

    // The statement that makes this table waits until the other transaction ends.
    await other.query("begin");
    await other.query("create table secret ()");
    const migrated = db.migrate();
    await sleep(5000);
    await other.query("rollback");
    await migrated;
    const pending = await db.orm.migrator.getPending();
    await db.close();
    await other.end();
    await dropDatabase(url);

    expect(pending).to.deep.equal([]);
  });
});
