import type { Database } from "../db/database.ts";
import type { Job } from "../jobs.ts";

const longAgo = "now() - make_interval(days => $1)";

/** What has ended stays for so many days, to be told apart from what never was. */
const statements: readonly [text: string, days: number][] = [
  [`delete from api_token where revoked_at < ${longAgo} or expires_at < ${longAgo}`, 90],
  [`delete from session where expires_at < ${longAgo}`, 7],
  [`delete from revoked_token where expires_at < ${longAgo}`, 1],
];

/** Removes credentials that ended long ago. */
export function purgeJob(db: Database): Job {
  return {
    name: "auth.purge",
    schedule: "23 * * * *",
    async run() {
      for (const [text, days] of statements) await db.query(text, [days]);
    },
  };
}
