import { spawn } from "node:child_process";
import { chownSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Client } from "pg";
import { EngineError, type PostgresEngine, type PostgresOptions, startPostgres } from "../../src/engines/engines.ts";
import { eventually, survivors } from "./running.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

describe("startPostgres", () => {
  let folder: string;
  let engine: PostgresEngine | undefined;
  const warnings: string[] = [];

  const start = async (options: PostgresOptions = {}) => {
    engine = await startPostgres(folder, { warn: (message) => warnings.push(message), ...options });
    return engine;
  };
  const connect = async (connectionString = engine?.url) => {
    const client = new Client({ connectionString });
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  const setting = async (name: string) => {
    const client = await connect();
    const { rows } = await client.query<{ value: string }>("SELECT current_setting($1) AS value", [name]);
    await client.end();
    return rows[0]?.value;
  };

  const why = async (options?: PostgresOptions) => {
    const error = await start(options).catch((error: unknown) => error);
    expect(error).to.be.instanceOf(EngineError);
    return (error as Error).message;
  };

  before(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await engine?.stop();
    expect(await survivors(folder)).to.deep.equal([]);
  });
  after(() => removeFolder(folder));

  it("syncs to disk and allows 100 connections unless told otherwise", async () => {
    await start();
    const usual = [await setting("fsync"), await setting("max_connections")];
    await engine?.stop();
    await start({ settings: { max_connections: "20" } });

    expect(usual).to.deep.equal(["on", "100"]);
    expect(await setting("max_connections")).to.equal("20");
  });

  it("gives a role that owns its database and may make others, and is no superuser", async () => {
    await start();
    const client = await connect();
    const {
      rows: [role],
    } = await client.query(
      "SELECT rolname, rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user",
    );
    const refusal = await client.query("SET session_replication_role = replica").catch((error: Error) => error.message);
    for (const statement of [
      "CREATE SCHEMA mine",
      "DROP SCHEMA mine",
      "CREATE DATABASE another",
      "DROP DATABASE another",
    ]) {
      await client.query(statement);
    }
    await client.end();

    expect(role).to.deep.equal({ rolname: "holdfast", rolsuper: false, rolcreatedb: true, rolcreaterole: false });
    expect(refusal).to.match(/permission denied/);
  });

  it("hands over to it what a superuser has made in the database, as releases before it did", async () => {
    const { superuserUrl } = await start();
    const superuser = await connect(superuserUrl);
    await superuser.query(`
      CREATE SCHEMA old;
      CREATE TYPE old.state AS ENUM ('on', 'off');
      CREATE TABLE old.item (id int GENERATED ALWAYS AS IDENTITY, place serial, state old.state) PARTITION BY LIST (state);
      CREATE TABLE old.item_on PARTITION OF old.item FOR VALUES IN ('on');
      CREATE TABLE "Odd name" (v text);
      CREATE SEQUENCE old.count;
      CREATE VIEW old.shown AS SELECT * FROM old.item;
      CREATE FUNCTION old.double(n int) RETURNS int LANGUAGE sql AS 'SELECT 2 * n';
      DROP OWNED BY holdfast; ALTER DATABASE holdfast OWNER TO service; DROP ROLE holdfast`);
    await superuser.end();
    await engine?.stop();

    await start();
    const client = await connect();
    await client.query(`
      INSERT INTO old.item (state) VALUES ('on');
      ALTER TABLE old.item ADD more text; ALTER TABLE "Odd name" ADD more text;
      ALTER TYPE old.state ADD VALUE 'broken';
      CREATE OR REPLACE FUNCTION old.double(n int) RETURNS int LANGUAGE sql AS 'SELECT n + n';
      DROP VIEW old.shown; DROP SEQUENCE old.count; DROP TABLE old.item_on; DROP SCHEMA old CASCADE`);
    const { rows } = await client.query(
      "SELECT relname FROM pg_class WHERE relowner = 'service'::regrole AND oid > 16384",
    );
    await client.end();

    expect(rows).to.deep.equal([]);
  });

  it("stops at once although a client is connected, and may be stopped twice", async () => {
    await start();
    const client = await connect();
    const began = performance.now();

    await Promise.all([engine?.stop(), engine?.stop()]);

    expect(performance.now() - began).to.be.below(2000);
    await client.end();
  });

  it("writes neither failed statements nor rows into its log", async () => {
    await start();
    const client = await connect();
    await client.query("CREATE TABLE IF NOT EXISTS guarded (v text UNIQUE)");
    for (const attempt of [1, 2]) {
      await client.query("INSERT INTO guarded VALUES ('c1pher-text')").catch(() => attempt);
    }
    await client.end();

    const log = readFileSync(join(folder, "postgres.log"), "utf8");

    expect(log).to.include("duplicate key").and.not.include("c1pher-text");
  });

  it("comes back by itself, with another pid, when the postmaster is killed", async () => {
    const { pid } = await start();
    warnings.length = 0;

    process.kill(pid, "SIGKILL");
    await eventually(() => engine?.pid !== pid);

    expect(await setting("fsync")).to.equal("on");
    expect(warnings).to.deep.equal(["PostgreSQL ended (SIGKILL); starting it again"]);
  });

  it("stays stopped when it is stopped just after a crash", async () => {
    const { pid } = await start();

    process.kill(pid, "SIGKILL");
    await eventually(() => warnings.length > 0);
    await engine?.stop();

    expect(await survivors(folder)).to.deep.equal([]);
  });

  it("starts although the pid in the pid file belongs to another program by now", async () => {
    await start();
    await engine?.stop();
    const { uid, gid } = statSync(join(folder, "18"));
    const stranger = spawn("sleep", ["60"], { uid, gid, cwd: "/" });
    const pidFile = join(folder, "18/postmaster.pid");
    writeFileSync(pidFile, `${stranger.pid}\n${join(folder, "18")}\n1700000000\n5432\n${folder}/run\n\n`, {
      mode: 0o600,
    });
    if (process.getuid?.() === 0) chownSync(pidFile, uid, gid);

    await start();

    expect(await setting("fsync")).to.equal("on");
    expect(stranger.kill(0), "the stranger lives").to.equal(true);
    stranger.kill();
  });

  it("says why the server ended early, with the line of its log", async () => {
    expect(await why({ settings: { max_connections: "many" } })).to.match(
      /ended \(exit code 1\) before it was ready: .*"max_connections": "many"/,
    );
  });

  it("refuses a cluster without its password, or with a wrong one, or of another version", async () => {
    const secret = join(folder, "superuser.secret");
    const right = readFileSync(secret, "utf8");

    rmSync(secret);
    expect(await why()).to.match(/superuser.secret is missing.*restore it/);
    writeFileSync(secret, "wrong", { mode: 0o600 });
    expect(await why()).to.match(/superuser.secret is not the password/);
    writeFileSync(secret, right);
    renameSync(join(folder, "18"), join(folder, "17"));
    expect(await why()).to.match(/holds data of PostgreSQL 17, and this is PostgreSQL 18/);
  });
});
