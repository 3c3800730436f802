import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect } from "chai";
import { Redis } from "ioredis";
import { Client } from "pg";
import { EngineError, startEngines, startValkey } from "../../src/engines/engines.ts";
import { type Holder, holdEngines, holdEnginesInstalledIn, holdEnginesOnSmallDisk, NOBODY } from "./held-engines.ts";
import { runningOn, survivors } from "./running.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

const isRoot = process.getuid?.() === 0;

describe("startEngines", () => {
  let folder: string;
  let data: string;
  let holders: Holder[];

  // One cluster for all, as a new one takes half a second.
  before(() => {
    folder = temporaryFolder();
    data = join(folder, "new/data");
  });
  beforeEach(() => {
    holders = [];
  });
  afterEach(async () => {
    for (const holder of holders) await holder.kill();
    expect(await survivors(folder)).to.deep.equal([]);
  });
  after(() => removeFolder(folder));

  const hold = (path: string, identity?: { uid: number; gid: number }) => {
    const holder = holdEngines(path, identity);
    holders.push(holder);
    return holder;
  };

  it("gives URLs that pg and ioredis use as they are, and keeps the data over a clean stop", async () => {
    const first = await startEngines(data);
    await run(first.databaseUrl, "CREATE TABLE kept AS SELECT 1 AS one");
    const redis = new Redis(first.redisUrl);
    expect(await redis.set("k", "v")).to.equal("OK");
    redis.disconnect();
    await first.stop();

    const second = await startEngines(relative(process.cwd(), data));
    const rows = await run(second.databaseUrl, "SELECT current_database(), one FROM kept");
    await second.stop();

    expect(rows).to.deep.equal([{ current_database: "holdfast", one: 1 }]);
    expect(second.databaseUrl).to.equal(first.databaseUrl);
  });

  it("lets no other user read what it keeps, and names the password in no command line", async () => {
    const engines = await startEngines(data);
    const passwords = [
      new URL(engines.databaseUrl).password,
      readFileSync(join(data, "postgres/superuser.secret"), "utf8").trim(),
    ];
    const has = (text: string) => passwords.some((password) => text.includes(password));
    const open = ["", ...readdirSync(data, { recursive: true, encoding: "utf8" })]
      .map((name) => join(data, name))
      .filter((path) => statSync(path).mode & 0o067);
    const shown = runningOn(folder).filter(({ command }) => has(command));
    const logged = has(readFileSync(join(data, "postgres/postgres.log"), "utf8"));
    await engines.stop();

    for (const password of passwords) expect(password).to.have.length.above(20);
    expect({ open, shown, logged }).to.deep.equal({ open: [], shown: [], logged: false });
  });

  it("says who holds the folder when a second service starts on it", async () => {
    const holder = hold(data);
    expect(await holder.next()).to.have.property("databaseUrl");

    const second = await refusal(startEngines(data));

    expect(second).to.match(new RegExp(`already in use by process ${holder.pid}; stop it, or set SERVICE_DATA_DIR`));
  });

  it("refuses a second start within the same process, and leaves the first one alone", async () => {
    const engines = await startEngines(data);
    const second = await refusal(startEngines(data));
    const rows = await run(engines.databaseUrl, "SELECT 1 AS one");
    await engines.stop();

    expect(second).to.match(new RegExp(`in use by process ${process.pid}`));
    expect(rows).to.deep.equal([{ one: 1 }]);
  });

  it("lets one of two services have the folder that start on it at once", async () => {
    const told = await Promise.all([hold(data).next(), hold(data).next()]);

    expect(told.filter(({ databaseUrl }) => databaseUrl)).to.have.length(1);
    expect(told.find(({ refused }) => refused)?.refused).to.match(/^EngineError: .* is already in use by /);
  });

  it("leaves neither engine behind when one of them cannot start", async () => {
    const valkey = await startValkey(join(data, "valkey"));
    const refused = await refusal(startEngines(data));
    await valkey.stop();

    expect(refused).to.match(/valkey is already in use/);
    expect(await survivors(folder)).to.deep.equal([]);
  });

  it("keeps the engines while the service drains after a Ctrl-C to the whole group", async () => {
    const holder = hold(data);
    expect(await holder.next()).to.have.property("databaseUrl");

    process.kill(-holder.pid, "SIGINT");

    expect(await holder.next()).to.deep.equal({ drained: true });
    expect(holder.complaints()).to.equal("");
  });

  it("follows its folder to a path that is too long for a socket, and to one that a URL would escape", async () => {
    for (const name of ["long-".repeat(30), "Ü, 100%? #1 'x'"]) {
      const moved = join(folder, name);
      renameSync(data, moved);
      const engines = await startEngines(moved);
      const rows = await run(engines.databaseUrl, "SELECT one FROM kept");
      const redis = new Redis(engines.redisUrl);
      const pong = await redis.ping();
      redis.disconnect();
      const sockets = [decodeURIComponent(new URL(engines.databaseUrl).hostname), dirname(engines.redisUrl)];
      const modes = sockets.map((path) => statSync(path).mode & 0o777);
      await engines.stop();
      renameSync(moved, data);

      expect({ rows, pong, modes }).to.deep.equal({ rows: [{ one: 1 }], pong: "PONG", modes: [0o700, 0o700] });
      expect(sockets.filter((path) => existsSync(path))).to.deep.equal([]);
    }
  });

  it("refuses a folder that is a file, and one that everybody shares", async () => {
    const shared = join(folder, "shared");
    mkdirSync(shared);
    chmodSync(shared, 0o1777);

    expect(await refusal(startEngines("/dev/null"))).to.match(/^cannot keep data in \/dev\/null: .* not a folder/);
    expect(await refusal(startEngines(shared))).to.match(/shared with other users; set SERVICE_DATA_DIR/);
  });

  it("says that the disk is full", async function () {
    if (spawnSync("unshare", ["--mount", "true"]).status !== 0) this.skip();
    const mounted = join(folder, "disk");
    mkdirSync(mounted);
    const holder = holdEnginesOnSmallDisk(mounted, "12m");
    holders.push(holder);

    expect((await holder.next()).refused).to.match(/^EngineError: .*no space is left.*SERVICE_DATA_DIR/i);
  });

  describe("as an ordinary user", () => {
    before(function () {
      if (!isRoot) this.skip();
      const { status, stderr } = spawnSync(process.execPath, ["--version"], { ...NOBODY, cwd: "/", encoding: "utf8" });
      if (status !== 0) {
        console.log(`skipped: nobody cannot run ${process.execPath} ${stderr}`);
        this.skip();
      }
    });

    it("starts, and refuses root on the same folder", async () => {
      chmodSync(folder, 0o777);
      const own = join(folder, "of-nobody");
      const holder = hold(own, NOBODY);
      expect(await holder.next()).to.have.property("databaseUrl");
      await holder.kill();
      chmodSync(folder, 0o755);

      const asRoot = await refusal(startEngines(own));

      expect(asRoot).to.match(/of-nobody belongs to user 65534, and this process is user 0: run as that user/);
    });

    it("refuses a folder of root's, a read-only one, and one above that it may not write", async () => {
      const readOnly = join(folder, "read-only");
      mkdirSync(readOnly, 0o555);

      const ofRoot = await hold(data, NOBODY).next();
      const below = await hold(join(readOnly, "data"), NOBODY).next();

      expect(ofRoot.refused).to.match(/^EngineError: .*data belongs to user 0, and this process is user 65534/);
      expect(below.refused).to.match(/^EngineError: cannot keep data in .*read-only\/data: this user may not write/);
    });
  });

  it("starts for root out of a home that PostgreSQL's user may not pass", async function () {
    if (spawnSync("unshare", ["--mount", "true"]).status !== 0) this.skip();
    const home = join(folder, "home");
    mkdirSync(join(home, "holdfast"), { recursive: true });
    chmodSync(home, 0o700);
    const holder = holdEnginesInstalledIn(join(home, "holdfast"), data);
    holders.push(holder);

    expect(await holder.next()).to.have.property("databaseUrl");
    expect(runningOn(data).some(({ command }) => command.includes(join(data, "postgres/binaries-")))).to.equal(true);
  });

  it("names the folder that PostgreSQL's user may not pass when root starts it", async function () {
    if (!isRoot) this.skip();
    const closed = join(folder, "closed");
    mkdirSync(closed, 0o700);

    const refused = await refusal(startEngines(join(closed, "data")));

    expect(refused).to.include(
      `may not pass ${closed}: move the data with SERVICE_DATA_DIR, or run as an ordinary user`,
    );
  });
});

async function run(connectionString: string, sql: string): Promise<object[]> {
  const client = new Client({ connectionString });
  await client.connect();
  const { rows } = await client.query<object>(sql);
  await client.end();
  return rows;
}

async function refusal(start: Promise<{ stop(): Promise<void> }>): Promise<string> {
  try {
    const engine = await start;
    await engine.stop();
  } catch (error) {
    expect(error).to.be.instanceOf(EngineError);
    expect((error as Error).message).not.to.include("\n");
    return (error as Error).message;
  }
  throw new Error("it started");
}
