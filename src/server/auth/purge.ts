import type { Database } from "../db/database.ts";
import type { Job } from "../jobs.ts";

/** What has ended stays long enough to be told apart from what never was: API tokens 90 days, sessions a week. */
const statements = [
  `delete from api_token where revoked_at < now() - make_interval(days => $1)
     or expires_at < now() - make_interval(days => $1)`,
  "delete from session where expires_at < now() - make_interval(days => $1 / 12)",
  "delete from revoked_token where expires_at < now() - make_interval(days => $1 / 90)",
];

/** Removes credentials that ended long ago. */
export function purgeJob(db: Database): Job {
  return {
    name: "auth.purge",
    schedule: "23 * * * *",
    async run() {
      for (const statement of statements) await db.query(statement, [90]);
    },
  };
}
