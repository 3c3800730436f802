import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { inTransaction } from "../../src/server/db/database.ts";
import { toRefusal } from "../../src/server/errors.ts";
import { type Job, Jobs } from "../../src/server/jobs.ts";
import { createLogger } from "../../src/server/logging.ts";
import { until } from "../faults/own-engines.ts";
import { useDatabase } from "../harness/database.ts";
import { shuttingDownProxy } from "./db/shutting-down-proxy.ts";

const logger = createLogger("silent");

describe("Jobs", () => {
  const database = useDatabase();
  let replicas: Jobs[];
  let ran: string[];
  beforeEach(() => {
    replicas = [];
    ran = [];
  });
  afterEach(() => Promise.all(replicas.map((replica) => replica.stop(1000))));

  /** A replica that works on these jobs. */
  const replica = async (jobs: readonly Job[], works = true) => {
    const started = new Jobs(database.url, logger);
    replicas.push(started);
    await started.start(jobs, works);
    return started;
  };
  /** A job that notes each of its runs. */
  const noting = (name: string, run: (data: { id?: string }) => Promise<void> = async () => {}): Job => ({
    name,
    async run(data: { id?: string }) {
      ran.push(data.id ?? "");
      await run(data);
    },
  });
  const enqueue = (jobs: Jobs, name: string, ids: readonly string[], end: () => void = () => {}) => {
    const em = database.db.forkWithoutTenant();
    return inTransaction(em, async () => {
      for (const id of ids) await jobs.enqueue(em, name, { id });
      end();
    });
  };

  it("run when the transaction that enqueued them commits, and never when it rolls back", async () => {
    const jobs = await replica([noting("test.commit")]);

    await enqueue(jobs, "test.commit", ["gone"], () => {
      throw new Error("roll back");
    }).catch(() => {});
    await enqueue(jobs, "test.commit", ["kept"]);
    await until(() => ran.length > 0);

    const rows = await database.db.query("select data from jobs.job where name = $1", ["test.commit"]);
    expect(rows).to.deep.equal([{ data: { id: "kept" } }]);
    expect(ran).to.deep.equal(["kept"]);
  });

  it("do not run before the transaction commits", async () => {
    const jobs = await replica([noting("test.early")]);
    const em = database.db.forkWithoutTenant();

    await em.begin();
    await jobs.enqueue(em, "test.early", { id: "early" });
    await sleep(300);
    const before = [...ran];
    await em.commit();
    await until(() => ran.length > 0);

    expect(before).to.deep.equal([]);
  });

  it("are tried again when they fail", async () => {
    const jobs = await replica([
      noting("test.retry", async () => {
        if (ran.length === 1) throw new Error("the first time");
      }),
    ]);

    await enqueue(jobs, "test.retry", ["again"]);
    await until(() => ran.length === 2);

    expect(ran).to.deep.equal(["again", "again"]);
  });

  it("run once each over two replicas, which share the work", async () => {
    const worked = [0, 0];
    const counting = (at: 0 | 1) =>
      noting("test.share", async () => {
        worked[at] = (worked[at] ?? 0) + 1;
        await sleep(20);
      });
    const [first] = await Promise.all([replica([counting(0)]), replica([counting(1)])]);
    const ids = Array.from({ length: 40 }, (_, at) => `job ${at}`);

    await enqueue(first, "test.share", ids);
    await until(() => ran.length >= ids.length, 15_000);
    await sleep(200);

    expect(ran.toSorted()).to.deep.equal(ids.toSorted());
    expect(Math.min(...worked)).to.be.above(0);
  });

  it("have one schedule however many replicas there are", async () => {
    const scheduled = { ...noting("test.schedule"), schedule: "0 3 * * *" };

    await Promise.all([replica([scheduled]), replica([scheduled])]);

    const rows = await database.db.query("select name, cron from jobs.schedule where name = $1", ["test.schedule"]);
    expect(rows).to.deep.equal([{ name: "test.schedule", cron: "0 3 * * *" }]);
  });

  it("are enqueued but not worked on by a replica that runs none", async () => {
    const jobs = await replica([noting("test.idle")], false);

    await enqueue(jobs, "test.idle", ["waits"]);
    await sleep(300);

    expect(ran).to.deep.equal([]);
    await replica([noting("test.idle")]);
    await until(() => ran.length === 1);
  });

  it("that run are finished before a graceful stop is over", async () => {
    let finished = false;
    const jobs = await replica([
      noting("test.stop", async () => {
        await sleep(700);
        finished = true;
      }),
    ]);

    await enqueue(jobs, "test.stop", ["slow"]);
    await until(() => ran.length === 1);
    await jobs.stop(5000);

    expect(finished).to.equal(true);
    const rows = await database.db.query("select state from jobs.job where name = $1", ["test.stop"]);
    expect(rows).to.deep.equal([{ state: "completed" }]);
  });

  it("that run longer than a stop waits go to another replica", async () => {
    const jobs = await replica([noting("test.cut", () => sleep(3000, undefined, { ref: false }))]);

    await enqueue(jobs, "test.cut", ["cut"]);
    await until(() => ran.length === 1);
    await jobs.stop(0);
    await replica([noting("test.cut")]);
    await until(() => ran.length === 2);

    expect(ran).to.deep.equal(["cut", "cut"]);
  });

  it("are refused with SERVICE_UNAVAILABLE while the queue is not up", async () => {
    const jobs = new Jobs(database.url, logger);

    const refused = await enqueue(jobs, "test.refused", ["early"]).catch(
      (error: unknown) => toRefusal(error).errorCode,
    );

    expect(refused).to.equal("SERVICE_UNAVAILABLE");
  });

  it("can be stopped while the queue cannot start", async () => {
    const jobs = new Jobs("postgresql://u:p@127.0.0.1:1/d", logger);
    const starting = jobs.start([], true);

    await sleep(50);
    await jobs.stop(1000);
    await starting;
  });

  it("can be stopped while PostgreSQL is shut down, whose last words do not end the process", async () => {
    const proxy = await shuttingDownProxy(database.url);
    const jobs = new Jobs(proxy.url, logger);

    await jobs.start([noting("test.last")], true);
    await jobs.stop(1000);

    // An error that nobody listened to would fail this test when it comes.
    await sleep(100);
    proxy.close();
  });
});
