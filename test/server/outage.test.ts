import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { inTransaction } from "../../src/server/db/database.ts";
import { oneOfEach, pausePostgres, ServerOnOwnEngines, type Timed, until } from "../faults/own-engines.ts";

/** A call is answered within 3 s whatever happens; the rest is for a busy machine. */
const longestMs = 4000;

describe("A server in an outage", function () {
  this.timeout(40_000);
  // The limits are on, since they are what uses Redis.
  const server = new ServerOnOwnEngines({ RATE_LIMIT_API: "1000000" }, ["api", "ocsp", "jobs"]);
  let secretId: string;
  before(() => server.start());
  before(async () => {
    secretId = (await server.secret()).id;
  });
  after(() => server.stop());

  const each = () => oneOfEach(server.admin, server.projectId, secretId);
  const succeeded = (answers: Timed[]) => answers.every(({ status }) => status < 300);
  const refused = (answers: Timed[]) => answers.map(({ what, status, code }) => `${what} ${status} ${code}`);
  const allRefused = ["read", "list", "update", "create"].map((what) => `${what} 503 SERVICE_UNAVAILABLE`);
  const slowest = (answers: Timed[]) => Math.max(...answers.map(({ ms }) => ms));
  const health = async () => {
    const { status, body } = await server.anonymous.rest("GET", "/api/v1/health");
    return { status, ...body.components };
  };
  const isHealthy = async () => (await health()).status === 200;
  const pool = () => server.server.core.db.pool;

  describe("of PostgreSQL", () => {
    afterEach(async () => {
      await until(isHealthy);
      // Jobs, rounds and listeners go on by themselves: a connection that is in use returns, one that is lost never does.
      await until(async () => pool().waitingCount === 0 && pool().idleCount === pool().totalCount);
      expect(pool().totalCount).to.be.at.most(server.server.core.config.DATABASE_POOL_SIZE);
    });

    it("refuses every call with SERVICE_UNAVAILABLE in time, and serves again by itself", async () => {
      await server.postgres.stop();

      const during = [...(await each()), ...(await each())];
      await until(async () => (await health()).database === "unhealthy");
      const { status } = await health();
      await server.startPostgres();
      await until(async () => succeeded(await each()));

      expect(refused(during)).to.deep.equal([...allRefused, ...allRefused]);
      expect(slowest(during)).to.be.below(longestMs);
      expect(status).to.equal(503);
    });

    it("that hangs: refuses every call in time, and serves again by itself", async () => {
      const resume = pausePostgres(server.postgres);

      // More calls than connections, some of them on connections that were open before.
      const waiting = [];
      for (let round = 0; round < 6; round++) {
        waiting.push(each());
        await sleep(100);
      }
      await sleep(600);
      const start = performance.now();
      const { database } = await health();
      const healthMs = performance.now() - start;
      const during = (await Promise.all(waiting)).flat();
      resume();
      await until(async () => succeeded(await each()));

      expect(database).to.equal("unhealthy");
      expect(healthMs).to.be.below(longestMs);
      expect(during.map(({ status }) => status)).to.deep.equal(during.map(() => 503));
      expect(slowest(during)).to.be.below(longestMs);
    });

    it("that drops connections amid transactions: each call succeeds or is refused, and no connection is lost", async () => {
      const answers: Promise<Timed[]>[] = [];
      const killer = new pg.Client(server.postgres.url);
      await killer.connect();

      for (let round = 0; round < 30; round++) {
        answers.push(each());
        await killer.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast' and random() < 0.5",
        );
        await sleep(5);
      }
      const during = (await Promise.all(answers)).flat();
      await killer.end();

      expect(during.filter(({ status, code }) => status >= 300 && code !== "SERVICE_UNAVAILABLE")).to.deep.equal([]);
      expect(during.filter(({ status }) => status === 503)).not.to.deep.equal([]);
      expect(succeeded(await each())).to.equal(true);
    });

    it("loses no connection to transactions that fail", async () => {
      const { db } = server.server.core;
      const failing = Array.from({ length: 100 }, (_, at) => {
        const em = db.forkWithoutTenant();
        const work = () => em.execute(at % 2 === 0 ? "select 1/0" : "select pg_terminate_backend(pg_backend_pid())");
        return inTransaction(em, work).then(
          () => "committed",
          () => "failed",
        );
      });

      const outcomes = await Promise.all(failing);

      expect(outcomes).to.deep.equal(outcomes.map(() => "failed"));
      // All connections at once, which needs every slot of the pool.
      const all = Array.from({ length: pool().options.max ?? 0 }, () => db.query("select pg_sleep($1)", [0.05]));
      await Promise.all(all);
    });

    it("lets jobs run again by themselves", async () => {
      const { core } = server.server;
      await purged();

      await server.postgres.stop();
      await sleep(300);
      await server.startPostgres();

      await purged();

      async function purged() {
        await server.sql(`insert into idempotency_record (identity_id, key, organization_id, request, outcome, created_at)
          values (uuidv7(), 'k', uuidv7(), '', '', now() - interval '2 days')`);
        const em = core.db.forkWithoutTenant();
        await until(() =>
          inTransaction(em, () => core.jobs.enqueue(em, "idempotency.purge", {})).then(
            () => true,
            () => false,
          ),
        );
        await until(async () => (await server.sql("select from idempotency_record")).length === 0);
      }
    });
  });

  describe("of Redis", () => {
    it("serves secrets as before, says that it is unhealthy, and recovers by itself", async () => {
      await server.valkey.stop();

      const during = [...(await each()), ...(await each()), ...(await each())];
      await until(async () => (await health()).redis === "unhealthy");
      const unhealthy = await health();
      await server.startValkey();
      await until(isHealthy);

      expect(succeeded(during)).to.equal(true);
      expect(slowest(during)).to.be.below(1000);
      expect(unhealthy).to.deep.equal({ status: 503, database: "healthy", redis: "unhealthy", ocsp: "healthy" });
      const { headers } = await server.admin.rest("GET", `/api/v1/secrets/${secretId}`);
      expect(headers.get("x-ratelimit-remaining")).to.equal("999999");
    });

    it("that hangs: keeps no call waiting", async () => {
      const { pid } = server.valkey;
      process.kill(pid, "SIGSTOP");

      const first = await each();
      const next: number[] = [];
      for (const start = performance.now(); performance.now() - start < 1500; ) {
        const sent = performance.now();
        await server.admin.rest("GET", `/api/v1/secrets/${secretId}`);
        next.push(performance.now() - sent);
      }
      process.kill(pid, "SIGCONT");
      await until(isHealthy);

      expect(succeeded(first)).to.equal(true);
      expect(slowest(first)).to.be.below(1500);
      expect(Math.max(...next)).to.be.below(1500);
      // Once the connection is given up, nobody waits the 200 ms for it.
      expect(Math.min(...next)).to.be.below(150);
    });
  });
});
