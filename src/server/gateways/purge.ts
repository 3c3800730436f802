import type { Core } from "../context.ts";
import type { Job } from "../jobs.ts";

/** For how long what was done can be looked up; the audit log keeps it. */
const keptDays = 90;
/** Removed in one statement: a large one would take longer than a statement may. */
const batchSize = 5000;

/** Removes tasks that have ended long ago. */
export function purgeJob({ db }: Pick<Core, "db">): Job {
  return {
    name: "tasks.purge",
    schedule: "*/10 * * * *",
    async run() {
      for (let removed = batchSize; removed === batchSize; ) {
        const rows = await db.query(
          `delete from gateway_task where id in (
             select id from gateway_task where finished_at < now() - make_interval(days => $1)
             order by finished_at limit $2 for update skip locked) returning 1`,
          [keptDays, batchSize],
        );
        removed = rows.length;
      }
    },
  };
}
