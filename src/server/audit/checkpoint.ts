import { type ChainEnd, headOf } from "../../standards/audit-chain.ts";
import type { Core } from "../context.ts";
import type { Job } from "../jobs.ts";

interface End extends ChainEnd {
  readonly organizationId: string;
  readonly isNew: boolean;
}

/** Those of the last hour, and of some minutes more: this runs every hour, and not on the second. */
const endsStatement = `select organization_id as "organizationId", number as chain, length, encode(head, 'hex') as hash,
    written_at > now() - $1 * interval '1 minute' as "isNew"
  from audit_chain order by organization_id, number`;

/**
 * Writes to the service's log where the chains stand of each organization that has new events. Kept elsewhere, these
 * lines show later whether the end of a chain was cut: each is a checkpoint for `holdfast admin verify-audit`.
 */
export function checkpointJob({ db, logger }: Core): Job {
  return {
    name: "audit.checkpoint",
    schedule: "0 * * * *",
    async run() {
      const ends = await db.query<End>(endsStatement, [65]);
      for (const [organization_id, all] of Map.groupBy(ends, ({ organizationId }) => organizationId)) {
        const chains = all.filter(({ isNew }) => isNew).map(({ chain, length, hash }) => ({ chain, length, hash }));
        if (chains.length === 0) continue;
        const events = all.reduce((sum, { length }) => sum + length, 0);
        logger.info({ organization_id, head: headOf(all), events, chains }, "audit log checkpoint");
      }
    },
  };
}
