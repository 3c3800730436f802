import { CompiledQuery } from "kysely";
import { PgBoss } from "pg-boss";
import type { Database, EntityManager } from "./db/database.ts";
import type { Logger } from "./logging.ts";

/** Work that happens beside the calls: on a schedule, or because a call asked for it. Must bear running twice. */
export interface Job<Data extends object = object> {
  /** As in "secret.expire". */
  readonly name: string;
  /** When it runs by itself, in cron's notation, once over all replicas. */
  readonly schedule?: string;
  run(data: Data): Promise<void>;
}

/** Jobs are rows: they commit with the change that causes them, and outlive the replica that ran them. Kept by pg-boss. */
export class Jobs {
  readonly #boss: PgBoss;
  readonly #logger: Logger;

  constructor(url: string, logger: Logger) {
    this.#logger = logger;
    this.#boss = new PgBoss({
      connectionString: url,
      schema: "jobs",
      max: 4,
      application_name: "holdfast-jobs",
      useListenNotify: true,
      superviseIntervalSeconds: 10,
    });
    this.#boss.on("error", (error) => logger.warn({ err: error }, "job queue"));
  }

  /** Starts the queue, and works on `jobs` when this replica runs jobs. */
  async start(jobs: readonly Job[], works: boolean): Promise<void> {
    await this.#boss.start();
    for (const job of jobs) {
      const queue = {
        notify: true,
        retryLimit: 5,
        retryDelay: 1,
        retryBackoff: true,
        expireInSeconds: 300,
        heartbeatSeconds: 10,
      };
      await this.#boss.createQueue(job.name, job.schedule === undefined ? queue : { ...queue, policy: "stately" });
      if (!works) continue;
      const polling = { batchSize: 1, pollingIntervalSeconds: 1, notifyPollingIntervalSeconds: 2 };
      await this.#boss.work<object>(job.name, polling, async (batch) => {
        for (const { id, data } of batch) await this.#run(job, id, data);
      });
      if (job.schedule !== undefined) await this.#boss.schedule(job.name, job.schedule);
    }
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
    const executeSql = async (text: string, values?: unknown[]) => {
      const { rows } = await em.getKysely().executeQuery(CompiledQuery.raw(text, values ?? []));
      return { rows: rows as never[] };
    };
    await this.#boss.send(name, data, { db: { executeSql } });
  }

  /** Lets running jobs finish, at most for `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    await this.#boss.stop({ graceful: true, timeout: graceMs });
  }
}

/** Runs a job's change as the system, in one transaction over all organizations. */
export async function asSystem<T>(db: Database, work: (em: EntityManager) => Promise<T>): Promise<T> {
  const em = db.forkWithoutTenant();
  return em.transactional(work);
}
