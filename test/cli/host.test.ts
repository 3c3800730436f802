import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { databaseUrl, dropDatabase } from "../harness/databases.ts";
import { useServer } from "../harness/server.ts";
import { useHoldfast } from "./holdfast.ts";

/** No HOLDFAST_… variable: these need no server that runs. */
describe("holdfast admin on the server's host", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => server.environment());

  describe("migrate", () => {
    it("brings an empty database up to date, and leaves one alone that is", async () => {
      const name = `test_${randomBytes(6).toString("hex")}`;
      const env = { SERVICE_DATABASE_URL: databaseUrl(name) };
      await server.sql(`create database ${name}`);

      const first = await cli().print("admin migrate", { env });
      const second = await cli().print("admin migrate", { env });

      await dropDatabase(databaseUrl(name));
      expect(first).to.match(/^applied \S*initial\S*(, \S+)*\n$/);
      expect(second).to.equal("the schema is up to date\n");
    });

    it("says in one line what keeps it from the database", async () => {
      const cases = [{ SERVICE_DATABASE_URL: databaseUrl("nowhere") }, { SERVICE_REDIS_URL: "" }];

      const runs = await Promise.all(cases.map((env) => cli().run("admin migrate", { env })));

      expect(runs.map(({ status }) => status)).to.deep.equal([1, 1]);
      expect(runs[0]?.stderr).to.equal("holdfast: SERVICE_DATABASE_URL: there is no such database; create it first\n");
      expect(runs[1]?.stderr).to.match(/^holdfast: SERVICE_DATABASE_URL and SERVICE_REDIS_URL go together.*\n$/);
    });
  });

  describe("rewrap", () => {
    it("wraps all keys by a new master key, and says when the present one opens all of them", async () => {
      const fresh = { SERVICE_MASTER_KEY: randomBytes(32).toString("base64") };
      const both = { ...fresh, SERVICE_MASTER_KEY_PREVIOUS: server.environment()["SERVICE_MASTER_KEY"] };

      const wrong = await cli().run("admin rewrap", { env: fresh });
      const moved = await cli().json("admin rewrap", { env: both });
      const counted = await cli().run("admin rewrap", { env: fresh });

      expect(wrong.status).to.equal(1);
      expect(wrong.stderr).to.match(/^holdfast: SERVICE_MASTER_KEY_PREVIOUS is needed: .*\n$/);
      expect(moved).to.deep.equal({ rewrapped: moved.total, total: moved.total, unopened: 0, examples: [] });
      expect(moved.total).to.be.greaterThan(0);
      expect(counted).to.deep.equal({
        status: 0,
        stdout: `wrapped 0 keys anew; the master key opens ${moved.total} of ${moved.total}\n`,
        stderr: "",
      });
      // Back, for the other tests.
      await cli().print("admin rewrap", { env: { SERVICE_MASTER_KEY_PREVIOUS: fresh.SERVICE_MASTER_KEY } });
    });
  });

  describe("verify-audit", () => {
    /** The log as it is now, in files of the program's home. */
    const exportLog = async () => {
      await server.secret();
      const { body: checkpoint } = await server.admin.rest("GET", "/api/v1/audit-logs/verify");
      const { body: log } = await server.admin.rest("GET", "/api/v1/audit-logs/export");
      writeFileSync(join(cli().home, "audit.ndjson"), log);
      writeFileSync(join(cli().home, "verified.json"), JSON.stringify(checkpoint));
      return { lines: (log as string).trimEnd().split("\n"), checkpoint };
    };

    it("finds an exported log as it was written, up to a checkpoint", async () => {
      const { lines, checkpoint } = await exportLog();

      const said = await cli().run("admin verify-audit audit.ndjson --checkpoint verified.json");
      const report = await cli().json("admin verify-audit audit.ndjson");

      expect(said.status).to.equal(0);
      expect(said.stdout).to.match(new RegExp(`^${lines.length} events in \\d+ chains?, head [0-9a-f]{64}\n$`));
      expect(report).to.include({ valid: true, checked: lines.length, broken_at: null, broken_reason: null });
      expect(report.chains.map(({ chain }: { chain: number }) => chain)).to.include.members(
        checkpoint.chains.map(({ chain }: { chain: number }) => chain),
      );
    });

    it("names the first place of a log that is not, with status 1, and says what is no log at all", async () => {
      const { lines } = await exportLog();
      const changed = lines.map((line) => line.replace('"action":"secret.create"', '"action":"secret.list"'));
      writeFileSync(join(cli().home, "changed.ndjson"), changed.join("\n"));
      writeFileSync(join(cli().home, "noise"), "noise\n");

      const broken = await cli().run("admin verify-audit changed.ndjson");
      const report = await cli().run("admin verify-audit changed.ndjson --json");
      const noise = await cli().run("admin verify-audit noise");
      const missing = await cli().run("admin verify-audit nowhere");

      expect([broken.status, report.status, noise.status, missing.status]).to.deep.equal([1, 1, 2, 2]);
      expect(broken.stderr).to.match(
        /^holdfast: the log is not as it was written: event \d+ of chain \d+ is changed\n$/,
      );
      expect(JSON.parse(report.stdout)).to.include({ valid: false, broken_reason: "changed" });
      expect(noise.stderr).to.match(/^holdfast: line 1 of noise is no event/);
      expect(missing.stderr).to.equal("holdfast: cannot read nowhere (ENOENT)\n");
    });
  });
});
