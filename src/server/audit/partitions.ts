import type { Core } from "../context.ts";
import type { Database } from "../db/database.ts";
import type { Job } from "../jobs.ts";
import type { Logger } from "../logging.ts";

const monthsAhead = 3;

/** Makes the partitions of this month and the next three. Whatever month has none goes to the default partition. */
export async function addPartitions(db: Database): Promise<void> {
  await db.query(
    `select audit.add_partition((date_trunc('month', now() at time zone 'UTC') + make_interval(months => ahead))::date)
     from generate_series(0, $1::int) as ahead`,
    [monthsAhead],
  );
}

/** At the start: a backup that is being taken keeps partitions from being made, and must not keep the service down. */
export async function addPartitionsIfPossible(db: Database, logger: Logger): Promise<void> {
  try {
    await addPartitions(db);
  } catch (error) {
    logger.warn({ err: error }, "the partitions of the audit log could not be made; this is tried again every day");
  }
}

export function partitionJob({ db }: Core): Job {
  return { name: "audit.partition", schedule: "17 3 * * *", run: () => addPartitions(db) };
}
