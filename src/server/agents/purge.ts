import type { Core } from "../context.ts";
import type { Job } from "../jobs.ts";

/** Nobody has waited for these for minutes; until then they tell an answer that is sent again from a late one. */
const purgeCommands = `with ended as (
    delete from agent_command where expires_at < now() - make_interval(mins => $1) returning id)
  delete from data_key where record_id in (select id from ended)`;

/** What has ended stays for so many days, to be told apart from what never was. */
const purgeTokens = `delete from agent_enrollment_token
  where used_at < now() - make_interval(days => $1) or expires_at < now() - make_interval(days => $1)`;

/** Removes commands with what agents answered to them, and enrollment tokens, once they have ended. */
export function purgeJob({ db }: Pick<Core, "db">): Job {
  return {
    name: "agents.purge",
    schedule: "*/5 * * * *",
    async run() {
      await db.query(purgeCommands, [5]);
      await db.query(purgeTokens, [1]);
    },
  };
}
