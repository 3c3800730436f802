import { randomBytes } from "node:crypto";
import { Agent, request } from "node:http";
import { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { readConfig } from "../../src/server/config.ts";
import { Database } from "../../src/server/db/database.ts";
import { createLogger } from "../../src/server/logging.ts";
import { startOcspProcess } from "../../src/server/ocsp-process.ts";
import { readMasterKey } from "../../src/server/seal/master-key.ts";
import { entities } from "../../src/server/server.ts";
import { until } from "../faults/own-engines.ts";
import { ServerProcess } from "../faults/server-process.ts";
import { cloneDatabase, dropDatabase, superuserUrl } from "../harness/databases.ts";
import { useServer } from "../harness/server.ts";
import { Authorities } from "./certificates/authorities.ts";
import { ask, issueFrom, probe, responderOf, revoke } from "./certificates/ocsp.ts";

/** All that the responder may do to the database (docs/operations.md). */
const readTables = [
  "certificate_authority",
  "certificate_status",
  "issuer_hash",
  "ocsp_signer",
  "crl",
  "crl_part",
  "data_key",
  "organization_key",
];

describe("holdfast ocsp", function () {
  this.timeout(60_000);
  const server = useServer();
  const authorities = new Authorities(server);
  let processes: ServerProcess[];
  beforeEach(() => {
    processes = [];
  });
  afterEach(() => Promise.all(processes.map((each) => each.kill())));

  const start = (settings: Record<string, string>, args = ["ocsp"]) => {
    const started = new ServerProcess({ ...server.environment(), ...settings }, { args });
    processes.push(started);
    return started;
  };
  /** Where the responder of a process listens, once it does. */
  const listening = async (started: ServerProcess) => {
    await started.ready();
    const [, port] = /"ocsp_port":(\d+)/.exec(started.stdout) ?? expect.fail(started.stdout);
    return `http://127.0.0.1:${port}`;
  };
  const asSuperuser = async (...statements: string[]) => {
    const client = new pg.Client(superuserUrl(server.databaseUrl));
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };

  describe("with a role that may only read its tables", () => {
    const role = `reader_${randomBytes(4).toString("hex")}`;
    let readerUrl: string;
    before(async () => {
      await asSuperuser(
        `create role ${role} login password 'reader'`,
        `grant select on ${readTables.join(", ")} to ${role}`,
      );
      const url = new URL(server.databaseUrl);
      [url.username, url.password] = [role, "reader"];
      readerUrl = url.href;
    });
    after(() => asSuperuser(`drop owned by ${role}`, `drop role ${role}`));

    for (const args of [["ocsp"], ["serve", "--only", "ocsp"]]) {
      it(`answers as the server does: ${args.join(" ")}`, async () => {
        const root = await authorities.root();
        const [good, revoked] = [await issueFrom(server, root), await issueFrom(server, root)] as const;
        const started = start({ SERVICE_DATABASE_URL: readerUrl }, args);
        const responder = await listening(started);
        const before = await ask(responder, root, revoked.serial_number, { nonce: null });

        await revoke(server, revoked);
        const after = [good, revoked].map(({ serial_number: number }) => ask(responder, root, number, { nonce: null }));
        const certificate = await fetch(`${responder}/ca/${root.id}.crt`);
        const [ready, health] = [await probe(responder, "ready"), await probe(responder, "health")];

        expect(before.said).to.equal("good");
        expect((await Promise.all(after)).map(({ said }) => said)).to.deep.equal(["good", "revoked"]);
        expect(certificate.status).to.equal(200);
        expect([ready.status, health.status]).to.deep.equal([200, 200]);
        expect(started.stdout).not.to.match(/"level":[56]0/);
        expect(started.stderr).to.equal("");
      });
    }
  });

  it("that was paused tells, when it goes on, what was revoked meanwhile, whatever it was asked before", async () => {
    const root = await authorities.root();
    const certificates = await Promise.all(Array.from({ length: 10 }, () => issueFrom(server, root)));
    const started = start({});
    const responder = await listening(started);
    const askAll = () =>
      Promise.all(certificates.map((each) => ask(responder, root, each.serial_number, { nonce: null })));
    const before = await askAll();
    // On their way when it is paused: the database answers some of them, and nobody reads that.
    const caught = askAll();
    started.signal("SIGSTOP");

    for (const each of certificates) await revoke(server, each);
    const later = askAll();
    // Longer than a query waits, and longer than a statement may take.
    await sleep(3000);
    started.signal("SIGCONT");

    await caught;
    expect(new Set(before.map(({ said }) => said))).to.deep.equal(new Set(["good"]));
    expect(new Set((await later).map(({ said }) => said))).to.deep.equal(new Set(["revoked"]));
  });

  describe("in this process", () => {
    let log: string;
    let stopping: (() => Promise<void>)[];
    beforeEach(() => {
      log = "";
      stopping = [];
    });
    afterEach(async () => {
      for (const stop of stopping) await stop();
    });

    const run = async (settings: Record<string, string>) => {
      const config = readConfig({ ...server.environment(), ...settings });
      const sink = new Writable({
        write: (chunk: Buffer, _, done) => {
          log += chunk.toString();
          done();
        },
      });
      const running = await startOcspProcess({
        config,
        logger: createLogger("info", sink),
        databaseUrl: config.DATABASE_URL ?? "",
        redisUrls: config.REDIS_URL ?? [],
        masterKey: readMasterKey(config, false),
      });
      stopping.push(() => running.stop());
      return responderOf(running);
    };

    it("is alive and not ready until a server has made the tables, and then answers by itself", async () => {
      const url = await cloneDatabase("template0");
      const responder = await run({ SERVICE_DATABASE_URL: url });
      stopping.push(() => dropDatabase(url));
      const [live, before] = [await probe(responder, "live"), await probe(responder, "ready")];
      const early = await ask(responder, await authorities.root(), "41");

      const database = await Database.open({ url, poolSize: 2, entities, logger: createLogger("silent") });
      await database.migrate();
      await database.close();
      await until(async () => (await probe(responder, "ready")).status === 200);

      expect([live.status, before.status, early.said]).to.deep.equal([200, 503, "tryLater"]);
      expect((await probe(responder, "health")).body.components.ca_certificates).to.equal(0);
    });

    it("starts while the database cannot be reached", async () => {
      const responder = await run({ SERVICE_DATABASE_URL: "postgresql://nobody@127.0.0.1:1/none" });

      const [live, ready] = [await probe(responder, "live"), await probe(responder, "ready")];

      expect([live.status, ready.status]).to.deep.equal([200, 503]);
    });

    it("is not ready with another master key, says so once in the log, and answers tryLater", async () => {
      const root = await authorities.root();
      const responder = await run({ SERVICE_MASTER_KEY: randomBytes(32).toString("base64") });

      const answers = [await ask(responder, root, root.serial_number), await ask(responder, root, root.serial_number)];
      const health = await probe(responder, "health");

      expect(answers.map(({ said }) => said)).to.deep.equal(["tryLater", "tryLater"]);
      expect(health.status).to.equal(503);
      expect(health.body.components).to.include({ database: "connected", signing_key: "missing" });
      const [{ id }] = await server.sql("select id from ocsp_signer where ca_id = $1", [root.id]);
      const told = log.split("\n").filter((line) => line.includes(id));
      expect(told).to.have.length(1);
      expect(told[0]).to.include("the key of an OCSP signer does not open with this master key");
    });
  });

  it("ends with status 0 within 10 s on SIGTERM, and finishes what it was asked before", async () => {
    const root = await authorities.root();
    const started = start({});
    const responder = await listening(started);
    const agent = new Agent({ keepAlive: true });
    await new Promise<void>((resolve, reject) => {
      const asking = request(`${responder}/live`, { agent }, (answer) => answer.resume().once("end", resolve));
      asking.once("error", reject).end();
    });
    const lock = new pg.Client(server.databaseUrl);
    await lock.connect();
    await lock.query("begin");
    await lock.query("lock table certificate_status in access exclusive mode");

    const slow = ask(responder, root, root.serial_number);
    await until(
      async () => (await server.sql("select from pg_stat_activity where wait_event_type = 'Lock'")).length > 0,
    );
    const begun = performance.now();
    started.signal("SIGTERM");
    await until(() => started.stdout.includes("stopping"));
    await lock.query("rollback");
    await lock.end();

    expect((await slow).said).to.equal("good");
    expect(await started.ended).to.equal(0);
    expect(performance.now() - begun).to.be.below(10_000);
    agent.destroy();
  });

  it("says in one line that serve runs the responder itself where the engines are embedded", async () => {
    for (const args of [["ocsp"], ["serve", "--only", "ocsp"]]) {
      const started = start({ SERVICE_DATABASE_URL: "", SERVICE_REDIS_URL: "" }, args);

      expect(await started.ended).to.equal(1);
      expect(started.stderr).to.match(/^holdfast: SERVICE_DATABASE_URL is needed [^\n]+`holdfast serve` runs[^\n]+\n$/);
    }
  });
});
