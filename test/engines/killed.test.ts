import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Client } from "pg";
import { startEngines } from "../../src/engines/engines.ts";
import { type Holder, holdEngines } from "./held-engines.ts";
import { eventually, runningOn, survivors } from "./running.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

/** Folders come and go meanwhile, and what has gone amid the counting counts nothing. */
function countFiles(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true }).length;
  } catch {
    return 0;
  }
}

describe("A service that is killed with SIGKILL", () => {
  let folder: string;
  let holder: Holder | undefined;

  // One after the other on the same folder: each start but the first finds what the kill before it left.
  before(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await holder?.kill();
    expect(await survivors(folder)).to.deep.equal([]);
  });
  after(() => removeFolder(folder));

  const has = (name: string) => existsSync(join(folder, "postgres", name));
  const initialising = () => has(".") && readdirSync(join(folder, "postgres")).some((name) => name.startsWith("init-"));
  const moments: [string, () => boolean][] = [
    ["before it has the folder", () => true],
    ["when it takes the folder", () => has("owner.lock")],
    ["when initdb starts", initialising],
    ["amid initdb", () => countFiles(folder) > 300],
    ["when the cluster gets its name", () => has("18/PG_VERSION")],
    ["when PostgreSQL starts", () => has("18/postmaster.pid")],
    ["when PostgreSQL listens", () => has("run/.s.PGSQL.5432")],
  ];
  for (const [moment, reached] of moments) {
    it(`leaves nothing running ${moment}`, async () => {
      holder = holdEngines(folder);
      await eventually(reached);
      await holder.kill();

      expect(await survivors(folder)).to.deep.equal([]);
    });
  }

  it("leaves nothing that hinders the next start, and no half cluster", async () => {
    const engines = await startEngines(folder);
    const halves = readdirSync(join(folder, "postgres")).filter((name) => name.startsWith("init-"));
    await engines.stop();

    expect(halves).to.deep.equal([]);
  });

  it("loses nothing that was committed, once and again", async () => {
    for (const expected of [[], [1], [1, 2]]) {
      holder = holdEngines(folder);
      const client = new Client({ connectionString: (await holder.next()).databaseUrl });
      client.on("error", () => {});
      await client.connect();
      await client.query("CREATE TABLE IF NOT EXISTS kept (n int)");
      const { rows } = await client.query<{ n: number }>("SELECT n FROM kept ORDER BY n");
      await client.query("INSERT INTO kept VALUES ($1)", [expected.length + 1]);
      await holder.kill();

      expect(rows.map(({ n }) => n)).to.deep.equal(expected);
      expect(await survivors(folder)).to.deep.equal([]);
    }
  });

  it("and whose watchdog is killed too leaves a server that the next start ends", async () => {
    holder = holdEngines(folder);
    expect(await holder.next()).to.have.property("databaseUrl");
    const orphan = Number.parseInt(readFileSync(join(folder, "postgres/18/postmaster.pid"), "utf8"), 10);
    for (const { pid, command } of runningOn(folder)) if (command.includes("read x")) process.kill(pid, "SIGKILL");
    await holder.kill();
    expect(runningOn(folder).map(({ pid }) => pid)).to.include(orphan);

    const engines = await startEngines(folder);
    const after = runningOn(folder).map(({ pid }) => pid);
    await engines.stop();

    expect(after).not.to.include(orphan);
  });
});
