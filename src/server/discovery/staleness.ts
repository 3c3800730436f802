import { type AuditWriter, systemEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";

interface SilentAgent {
  readonly id: string;
  readonly organization_id: string;
  readonly hostname: string;
  /** How many of its files became stale. */
  readonly stale: number;
  readonly last_contact: string;
}

const longestSilenceDays = 7;
const batchSize = 5000;

const lastContact = "greatest(a.last_heartbeat, a.last_scan_at, a.created_at)";

/** Rows are locked in the order in which reports lock them. Who reports at this moment is not silent. */
const markStale = `with gone as (
    select d.id, a.id as agent_id, a.organization_id, a.hostname, ${lastContact} as last_contact
    from agent a join discovered_keytab d on d.agent_id = a.id and d.organization_id = a.organization_id
    where ${lastContact} < now() - make_interval(days => $1) and not d.stale
    order by d.agent_id, d.file_path limit $2 for no key update of d skip locked),
  marked as (update discovered_keytab d set stale = true from gone where d.id = gone.id)
  select agent_id as id, organization_id, hostname, last_contact, count(*)::int as stale
  from gone group by agent_id, organization_id, hostname, last_contact`;

/** Nobody knows any more what is on a host that has been silent for 7 days (gaps 7.1). */
export function stalenessJob({ db, audit, logger }: Core): Job {
  return {
    name: "discovery.stale",
    schedule: "*/10 * * * *",
    async run() {
      let marked = 0;
      for (let batch = batchSize; batch === batchSize; marked += batch)
        batch = await asSystem(db, (em) => markBatch(em, audit));
      if (marked > 0) logger.info({ discovered_keytabs: marked }, "files of silent agents became stale");
    },
  };
}

async function markBatch(em: EntityManager, audit: AuditWriter): Promise<number> {
  const agents = await run<SilentAgent>(em, markStale, [longestSilenceDays, batchSize]);
  await audit.record(em, agents.map(eventOf));
  return agents.reduce((sum, { stale }) => sum + stale, 0);
}

const eventOf = ({ id, organization_id, hostname, stale, last_contact }: SilentAgent) =>
  systemEvent({
    organizationId: organization_id,
    action: "agent.fall_silent",
    resourceType: "agent",
    resourceId: id,
    resourceName: hostname,
    details: { stale, last_contact: new Date(last_contact).toISOString() },
  });
