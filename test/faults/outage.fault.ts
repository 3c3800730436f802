import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { inTransaction } from "../../src/server/db/database.ts";
import { randomFrom } from "../harness/random.ts";
import { Load } from "./load.ts";
import { pausePostgres, ServerOnOwnEngines, until } from "./own-engines.ts";

const rounds = 24;
const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe("A server under load, with one fault after the other", function () {
  const server = new ServerOnOwnEngines({ RATE_LIMIT_API: "1000000", LOG_LEVEL: "warn" }, ["api", "ocsp", "jobs"]);
  const random = randomFrom(seed);
  before(() => server.start());
  after(() => server.stop());

  const faults: Record<string, () => Promise<void>> = {
    async "PostgreSQL stops"() {
      await server.postgres.stop();
      await sleep(random() * 3000);
      await server.startPostgres();
    },
    async "PostgreSQL is killed"() {
      const { pid } = server.postgres;
      process.kill(pid, "SIGKILL");
      await until(() => server.postgres.pid !== pid);
    },
    async "PostgreSQL hangs"() {
      const resume = pausePostgres(server.postgres);
      await sleep(500 + random() * 5000);
      resume();
    },
    async "PostgreSQL drops connections"() {
      const killer = new pg.Client(server.postgres.superuserUrl);
      await killer.connect();
      for (let times = 0; times < 20; times++) {
        await killer.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and random() < 0.3",
        );
        await sleep(random() * 100);
      }
      await killer.end();
    },
    async "Redis is killed"() {
      const { pid } = server.valkey;
      process.kill(pid, "SIGKILL");
      await until(() => server.valkey.pid !== pid);
    },
    async "Redis hangs"() {
      const { pid } = server.valkey;
      process.kill(pid, "SIGSTOP");
      await sleep(random() * 2500);
      process.kill(pid, "SIGCONT");
    },
  };
  const health = async () => (await server.anonymous.rest("GET", "/api/v1/health")).status;

  it("answers in time, recovers by itself, loses nothing it acknowledged, and leaks no connection", async () => {
    const load = new Load(server.projectId, random);
    const running = load.run(server.admin, 10);
    const told: string[] = [];

    for (let round = 0; round < rounds; round++) {
      const names = Object.keys(faults);
      const name = names[round % names.length] as string;
      const before = load.acknowledged;
      await faults[name]?.();
      await until(async () => (await health()) === 200, 15_000);
      await until(() => load.acknowledged > before, 15_000);
      told.push(`${name}: slowest so far ${Math.round(load.slowestMs)} ms, ${load.refused} refused`);
    }
    load.stop();
    await running;

    console.log(told.map((line) => `      ${line}`).join("\n"));
    console.log(`      HOLDFAST_TEST_SEED=${seed}: ${load.acknowledged} acknowledged, ${load.refused} refused`);
    const { pool, config } = { pool: server.server.core.db.pool, config: server.server.core.config };
    expect(pool.waitingCount).to.equal(0);
    expect(pool.idleCount).to.equal(pool.totalCount);
    expect(pool.totalCount).to.be.at.most(config.DATABASE_POOL_SIZE);
    await load.verify(server.admin, server.databaseUrl);
    // 3 s, and some more for a busy machine.
    expect(load.slowestMs).to.be.below(3500);
  });

  it("still runs jobs, and those that an outage caught amid their run", async () => {
    const { core } = server.server;
    await server.sql(`insert into idempotency_record (identity_id, key, organization_id, request, outcome, created_at)
      values (uuidv7(), 'k', uuidv7(), '', '', now() - interval '2 days')`);
    const em = core.db.forkWithoutTenant();
    await inTransaction(em, () => core.jobs.enqueue(em, "idempotency.purge", {}));
    await server.postgres.stop();
    await sleep(300);
    await server.startPostgres();

    await until(
      async () => (await server.sql("select from jobs.job where state in ('created', 'active', 'retry')")).length === 0,
      120_000,
    );
    expect(await server.sql("select from idempotency_record")).to.deep.equal([]);
  });
});
