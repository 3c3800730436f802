import type { Core } from "../context.ts";
import { type Database, run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";
import type { Logger } from "../logging.ts";
import type { AuditEvent, AuditWriter } from "./audit-writer.ts";

const batchSize = 1000;
const beforeAllIds = "00000000-0000-0000-0000-000000000000";

interface Row extends Omit<AuditEvent, "id" | "details"> {
  readonly id: string;
  readonly details: string;
}

/** What another replica has in hand is left to it. */
const takeStatement = `
  delete from audit.unchained_event where id in (
    select id from audit.unchained_event where id > $1 order by id limit $2 for update skip locked)
  returning id, organization_id as "organizationId", occurred_at as "occurredAt", action, outcome,
    actor_type as "actorType", actor_id as "actorId", actor_name as "actorName", resource_type as "resourceType",
    resource_id as "resourceId", resource_name as "resourceName", project_id as "projectId", reason,
    request_id as "requestId", source_ip as "sourceIp", user_agent as "userAgent", details`;

/**
 * Chains the events that were written without a chain: by the releases before there were chains, and by their last
 * replicas while this release replaced them. A batch at a time, so that it goes on where it was interrupted.
 */
export async function chainUnchained(db: Database, audit: AuditWriter, logger: Logger): Promise<void> {
  let chained = 0;
  for (let last: string | undefined = beforeAllIds; last !== undefined; ) {
    const rows = await asSystem(db, async (em) => {
      const taken = await run<Row>(em, takeStatement, [last, batchSize]);
      const inOrder = taken.sort((a, b) => (a.id < b.id ? -1 : 1));
      await audit.record(em, inOrder.map(eventOf));
      return inOrder;
    });
    chained += rows.length;
    last = rows.at(-1)?.id;
  }
  if (chained > 0) logger.info({ events: chained }, "events of the release before were added to the chains");
}

const eventOf = (row: Row): AuditEvent => ({
  ...row,
  occurredAt: new Date(row.occurredAt),
  details: JSON.parse(row.details),
});

/** For what the last replicas of the release before write after this one has started. */
export function chainUnchainedJob({ db, audit, logger }: Core): Job {
  return { name: "audit.chain", schedule: "*/5 * * * *", run: () => chainUnchained(db, audit, logger) };
}
