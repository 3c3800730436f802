import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";
import type { AuditEvent } from "./audit-writer.ts";
import { installationChainKey } from "./chain-key.ts";

const batchSize = 1000;
const beforeAllIds = "00000000-0000-0000-0000-000000000000";
const longestUpgradeMs = 86_400_000;

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
 * replicas while this release replaced them. Only within a day of the first start that had chains: whoever could write
 * to the database later could otherwise have events chained that never were. A batch at a time, so that it goes on
 * where it was interrupted.
 */
export async function chainUnchained(
  { db, audit, logger }: Pick<Core, "db" | "audit" | "logger">,
  chainsSince: Date,
): Promise<void> {
  const [table] = await db.query("select from pg_class where oid = to_regclass($1)", ["audit.unchained_event"]);
  if (table === undefined) return;
  let chained = 0;
  let last: string | undefined = beforeAllIds;
  while (last !== undefined && Date.now() < chainsSince.getTime() + longestUpgradeMs) {
    const after: string = last;
    const rows = await asSystem(db, async (em) => {
      const taken = await run<Row>(em, takeStatement, [after, batchSize]);
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
export function chainUnchainedJob(core: Core): Job {
  return {
    name: "audit.chain",
    schedule: "*/5 * * * *",
    run: async () => chainUnchained(core, (await installationChainKey(core.seal)).madeAt),
  };
}
