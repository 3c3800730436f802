import { setTimeout as sleep } from "node:timers/promises";
import { CompiledQuery } from "kysely";
import { PgBoss } from "pg-boss";
import { type Database, type EntityManager, inTransaction, openSession } from "./db/database.ts";
import { Listening } from "./db/listening.ts";
import { unavailable } from "./errors.ts";
import type { Logger } from "./logging.ts";

/** Work that happens beside the calls: on a schedule, or because a call asked for it. Must bear running twice. */
export interface Job<Data extends object = object> {
  /** As in "secret.expire". */
  readonly name: string;
  /** When it runs by itself, in cron's notation, once over all replicas. */
  readonly schedule?: string;
  run(data: Data): Promise<void>;
}

/** The database's answers, as long as they may take: a lost peer must not keep the queue waiting for ever. */
const timeouts = { connectionTimeoutMillis: 2000, query_timeout: 30_000, keepAlive: true };
const longestPauseMs = 5000;

/** Jobs are rows: they commit with the change that causes them, and outlive the replica that ran them. Kept by pg-boss. */
export class Jobs {
  readonly #url: string;
  readonly #logger: Logger;
  #boss: PgBoss | undefined;
  readonly #stopping = new AbortController();
  #starting: Promise<void> | undefined;

  constructor(url: string, logger: Logger) {
    this.#url = url;
    this.#logger = logger;
  }

  /** Starts the queue, and works on `jobs` when this replica runs jobs; tries until it succeeds or is stopped. */
  start(jobs: readonly Job[], works: boolean): Promise<void> {
    this.#starting ??= this.#startPatiently(jobs, works);
    return this.#starting;
  }

  async #startPatiently(jobs: readonly Job[], works: boolean): Promise<void> {
    const { signal } = this.#stopping;
    for (let pauseMs = 100; !signal.aborted; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      // A new one for each try: what is left of a start that failed amid an outage starts no workers any more.
      const boss = this.#newBoss();
      try {
        await boss.start();
        for (const job of jobs) await this.#startJob(boss, job, works);
        this.#boss = boss;
        return;
      } catch (error) {
        await boss.stop({ graceful: false }).catch(() => {});
        if (signal.aborted) return;
        this.#logger.warn({ err: error }, "the job queue did not start and will be tried again");
      }
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  #newBoss(): PgBoss {
    const boss = new PgBoss({
      connectionString: this.#url,
      schema: "jobs",
      max: 4,
      application_name: "holdfast-jobs",
      useListenNotify: true,
      superviseIntervalSeconds: 10,
      ...timeouts,
    });
    boss.on("error", (error) => this.#logger.warn({ err: error }, "job queue"));
    // Its own connection that listens takes the listeners of errors away before it ends: then one ends the process.
    boss.getDb().listen = (name, notified, subscribed) => this.#listen(name, notified, subscribed);
    return boss;
  }

  async #listen(name: string, notified: (payload: string) => void, subscribed: () => void) {
    const open = () => openSession(this.#url, "holdfast-jobs");
    const listening = new Listening({ name, open, notified, subscribed }, this.#logger);
    await listening.start();
    return { close: async () => listening.stop() };
  }

  async #startJob(boss: PgBoss, job: Job, works: boolean): Promise<void> {
    const queue = {
      notify: true,
      retryLimit: 5,
      retryDelay: 1,
      retryBackoff: true,
      expireInSeconds: 300,
      heartbeatSeconds: 10,
    };
    await boss.createQueue(job.name, job.schedule === undefined ? queue : { ...queue, policy: "stately" });
    if (!works) return;
    const polling = { batchSize: 1, pollingIntervalSeconds: 1, notifyPollingIntervalSeconds: 2 };
    const worker: string = await boss.work<object>(job.name, polling, async (batch) => {
      // Where there was one job there may be more: otherwise a full queue would give one for each interval.
      boss.notifyWorker(worker);
      for (const { id, data } of batch) await this.#run(job, id, data);
    });
    if (job.schedule !== undefined) await boss.schedule(job.name, job.schedule);
  }

  async #run(job: Job, id: string, data: object | null): Promise<void> {
    try {
      await job.run(data ?? {});
    } catch (error) {
      this.#logger.warn({ job: job.name, job_id: id, err: error }, "job failed and will be tried again");
      throw error;
    }
  }

  /** Enqueues work in the transaction of `em`: rolled back, it never runs. `data` is kept in clear, so ids only. */
  async enqueue(em: EntityManager, name: string, data: object): Promise<void> {
    if (this.#boss === undefined) throw unavailable("the job queue is not up yet");
    const executeSql = async (text: string, values?: unknown[]) => {
      const { rows } = await em.getKysely().executeQuery(CompiledQuery.raw(text, values ?? []));
      return { rows: rows as never[] };
    };
    await this.#boss.send(name, data, { db: { executeSql } });
  }

  /** Lets running jobs finish, at most for `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    await this.#starting;
    await this.#boss?.stop({ graceful: true, timeout: graceMs });
  }
}

/** Runs a job's change as the system, in one transaction over all organizations. */
export async function asSystem<T>(db: Database, work: (em: EntityManager) => Promise<T>): Promise<T> {
  const em = db.forkWithoutTenant();
  return inTransaction(em, async () => {
    const result = await work(em);
    await em.flush();
    return result;
  });
}
