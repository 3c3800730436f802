import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { Health } from "../../gen/ts/health/v1/health_pb.ts";
import { NOBODY } from "../engines/held-engines.ts";
import { survivors } from "../engines/running.ts";
import { until } from "../faults/own-engines.ts";
import { ServerProcess } from "../faults/server-process.ts";
import { Client } from "../harness/client.ts";
import { useServer } from "../harness/server.ts";

const isRoot = process.getuid?.() === 0;

describe("holdfast serve", function () {
  // A process takes a second to start, and several on a busy machine.
  this.timeout(60_000);
  const server = useServer();
  let processes: ServerProcess[];
  beforeEach(() => {
    processes = [];
  });
  afterEach(() => Promise.all(processes.map((each) => each.kill())));

  const start = (settings: Record<string, string>, args: string[] = [], identity?: { uid: number; gid: number }) => {
    const given = Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]);
    const environment = { SERVICE_PORT: "0", SERVICE_OCSP_PORT: "0", ...Object.fromEntries(given) };
    const started = new ServerProcess(environment, { args: ["serve", ...args], ...(identity && { identity }) });
    processes.push(started);
    return started;
  };
  /** On the engines of this file. */
  const startHere = (settings: Record<string, string> = {}, args: string[] = []) => {
    const all = Object.entries(server.environment()).map(([name, value]) => [name.replace("SERVICE_", ""), value]);
    return start({ ...Object.fromEntries(all), LOG_LEVEL: "info", ...settings }, args);
  };
  /** The one line with which a process that cannot start ends. */
  const refusal = async (started: ServerProcess) => {
    expect(await started.ended).to.equal(1);
    expect(started.stderr).to.match(/^holdfast: [^\n]+\n$/);
    return started.stderr;
  };

  describe("on a folder of its own", () => {
    let folder: string;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "holdfast-main-"));
      await chmod(folder, 0o711);
    });
    after(async () => {
      expect(await survivors(folder)).to.deep.equal([]);
      await rm(folder, { recursive: true, force: true });
    });

    /** What a first start has told. */
    const credentials = async (started: ServerProcess) => {
      await until(() => started.stdout.includes("HOLDFAST_CLIENT_SECRET"));
      const [, clientId = "", clientSecret = ""] =
        /HOLDFAST_CLIENT_ID=(\S+)[^]*HOLDFAST_CLIENT_SECRET=(\S+)/.exec(started.stdout) ?? [];
      return { clientId, clientSecret };
    };

    it("prints the credentials once and never again, and lets nobody else start on the folder", async () => {
      const settings = { DATA_DIR: join(folder, "data") };

      const first = start(settings);
      const url = await first.ready();
      const { clientId, clientSecret } = await credentials(first);
      await server.login(clientId, clientSecret, url);
      const refused = await refusal(start(settings));
      first.signal("SIGTERM");
      const ended = await first.ended;
      const second = start(settings);
      await server.login(clientId, clientSecret, await second.ready());
      second.signal("SIGTERM");

      expect(refused).to.include(`is already in use by process ${first.pid}; stop it, or set SERVICE_DATA_DIR`);
      expect([ended, await second.ended]).to.deep.equal([0, 0]);
      expect(first.stdout.split(clientSecret)).to.have.length(2);
      expect(second.stdout).not.to.include("HOLDFAST_CLIENT");
      expect(first.stderr + second.stderr).to.equal("");
    });

    it("serves an ordinary user too, and tells the credentials although an earlier start failed", async function () {
      if (!isRoot) this.skip();
      const home = join(folder, "home");
      await mkdir(home);
      await chown(home, NOBODY.uid, NOBODY.gid);
      const settings = { DATA_DIR: join(home, "data") };
      const busy = await listenSomewhere();

      const refused = await refusal(start({ ...settings, PORT: busy.port }, [], NOBODY));
      busy.close();
      const second = start(settings, [], NOBODY);
      const url = await second.ready();
      const { clientId, clientSecret } = await credentials(second);
      const admin = await server.login(clientId, clientSecret, url);
      second.signal("SIGTERM");

      expect(refused).to.include(`port ${busy.port} is in use; stop what listens there, or set SERVICE_PORT`);
      expect(admin.token).to.be.a("string");
      expect(await second.ended).to.equal(0);
      expect(await stat(join(home, "data/master.key"))).to.include({ uid: NOBODY.uid, mode: 0o100600 });
    });

    it("says in one line that the folder is not one it may write to, and leaves nothing there", async function () {
      const readOnly = join(folder, "read-only");
      await mkdir(readOnly, { mode: 0o555 });

      const [missing, refused] = await Promise.all([
        refusal(start({ DATA_DIR: "/dev/null/data" })),
        refusal(start({ DATA_DIR: join(readOnly, "data") }, [], isRoot ? NOBODY : undefined)),
      ]);

      expect(missing).to.include("cannot keep data in /dev/null/data: it is not a folder");
      expect(refused).to.include("this user may not write there, or set SERVICE_DATA_DIR to another folder");
    });

    it("refuses a folder that everybody shares, and puts no key there", async () => {
      const shared = join(folder, "shared");
      await mkdir(shared);
      await chmod(shared, 0o1777);

      const refused = await refusal(start({ DATA_DIR: shared }));

      expect(refused).to.include("is shared with other users; set SERVICE_DATA_DIR");
      expect(await readdir(shared)).to.deep.equal([]);
    });
  });

  describe("that cannot start", () => {
    it("says in one line which setting is bad, that the master key is not the database's, which parts there are", async () => {
      const [setting, masterKey, parts] = await Promise.all([
        refusal(startHere({ PORT: "http" })),
        refusal(startHere({ MASTER_KEY: Buffer.alloc(32).toString("base64") })),
        refusal(startHere({}, ["--only", "api,web"])),
      ]);

      expect(setting).to.include("SERVICE_PORT: ");
      expect(masterKey).to.include("SERVICE_MASTER_KEY is not the key that this database was sealed with");
      expect(parts).to.include("web is not one of api, jobs, ocsp");
    });
  });

  describe("that is told to stop", () => {
    for (const signals of [["SIGTERM"], ["SIGINT", "SIGINT"]] as const) {
      it(`finishes what runs and ends with status 0 within 10 s, on ${signals.join(" and ")}`, async () => {
        const { id } = await server.secret();
        const started = startHere();
        const url = await started.ready();
        const { port, hostname } = new URL(url);
        const idle = connect(Number(port), hostname);
        const keptAlive = new Client(url, server.admin.token);
        await keptAlive.rest("GET", `/api/v1/secrets/${id}`);
        const health = keptAlive.grpc(Health);
        const watch = health.watch({ service: "" });
        const watched = new Promise<number>((resolve) => watch.on("status", ({ code }) => resolve(code)));
        watch.on("error", () => {});
        await new Promise((resolve) => watch.once("data", resolve));
        const lock = new pg.Client(server.databaseUrl);
        await lock.connect();
        await lock.query("begin");
        await lock.query("select from secret where id = $1 for update", [id]);

        const slow = keptAlive.rest("PUT", `/api/v1/secrets/${id}`, { value: "slow" });
        await until(async () => {
          const { rows } = await lock.query("select from pg_stat_activity where wait_event_type = 'Lock'");
          return rows.length > 0;
        });
        const start = performance.now();
        for (const signal of signals) started.signal(signal);
        await until(() => started.stdout.includes("stopping"));
        const refused = await keptAlive.rest("GET", "/api/v1/health").then(
          () => "answered",
          () => "refused",
        );
        await lock.query("commit");
        await lock.end();
        const { status } = await slow;
        const ended = await started.ended;
        const ms = performance.now() - start;

        expect({ status, ended, refused }).to.deep.equal({ status: 200, ended: 0, refused: "refused" });
        expect(ms).to.be.below(10_000);
        expect(await watched).to.be.a("number");
        idle.destroy();
        health.close();
      });
    }
  });

  describe("--only", () => {
    it("api serves calls and runs no jobs; jobs opens no port and runs them", async () => {
      const api = startHere({}, ["--only", "api"]);
      const jobs = startHere({}, ["--only", "jobs"]);

      const [url, none] = await Promise.all([api.ready(), jobs.ready()]);
      const list = `/api/v1/secrets?project_id=${server.projectId}`;
      const { status } = await new Client(url, server.admin.token).rest("GET", list);
      await server.sql(`insert into idempotency_record (identity_id, key, organization_id, request, outcome, created_at)
        values (uuidv7(), 'k', uuidv7(), '', '', now() - interval '2 days')`);
      await until(() =>
        server.sql("select from jobs.queue where name = 'idempotency.purge'").then(
          ({ length }) => length === 1,
          () => false,
        ),
      );
      await server.sql("insert into jobs.job (name, policy) values ('idempotency.purge', 'stately')");
      await until(async () => (await server.sql("select from idempotency_record")).length === 0);
      for (const each of [api, jobs]) each.signal("SIGTERM");

      expect(status).to.equal(200);
      expect(none).to.equal("");
      expect(await Promise.all([api.ended, jobs.ended])).to.deep.equal([0, 0]);
    });
  });
});

describe("holdfast", () => {
  const run = async (...args: string[]) => {
    const started = new ServerProcess({}, { args });
    return { status: await started.ended, stdout: started.stdout, stderr: started.stderr };
  };

  it("shows what there is on --help, and how to get that when it does not understand", async () => {
    const [help, option, command] = await Promise.all([run("--help"), run("serve", "--port", "1"), run("sevre")]);

    expect(help).to.include({ status: 0, stderr: "" });
    expect(help.stdout).to.include("serve");
    expect(option.status).to.equal(2);
    expect(option.stderr).to.include("unknown option '--port'").and.to.include("run holdfast --help");
    expect(command.status).to.equal(2);
    expect(command.stderr).to.include("unknown command 'sevre'").and.to.include("run holdfast --help");
  });
});

/** A port that something else listens on. */
async function listenSomewhere(): Promise<{ port: string; close(): void }> {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  return { port: String((other.address() as AddressInfo).port), close: () => other.close() };
}
