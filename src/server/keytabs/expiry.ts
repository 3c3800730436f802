import { type AuditEvent, type AuditWriter, systemEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { millis } from "../db/columns.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";
import type { Call } from "../wire/call.ts";
import type { Keytab } from "./keytab.ts";
import { keytabId } from "./keytab-record.ts";

interface Expired {
  readonly id: string;
  readonly organization_id: string;
  readonly project_id: string | null;
  readonly name: string;
  readonly expires_at: number;
}

const batchSize = 1000;

/** Writes down that a keytab is expired, before a call changes it, where the sweep has not come by yet. */
export function expireIfOver(call: Call, keytab: Keytab): void {
  if (!keytab.awaitsSweep) return;
  keytab.expire();
  call.alsoRecord("keytab.expire", call.subject, true);
}

/** Writes down, within a minute, what readers see from the instant that a keytab's time is over (G-6.4). */
export function expiryJob({ db, audit, logger }: Core): Job {
  return {
    name: "keytab.expire",
    schedule: "* * * * *",
    async run() {
      let swept = 0;
      for (let batch = batchSize; batch === batchSize; swept += batch)
        batch = await asSystem(db, (em) => sweep(em, audit));
      if (swept > 0) logger.info({ keytabs: swept }, "keytabs expired");
    },
  };
}

/** The condition is that of the index on expires_at. */
async function sweep(em: EntityManager, audit: AuditWriter): Promise<number> {
  const expired = await run<Expired>(
    em,
    `update keytab k set status = 'expired'
     where k.id in (select id from keytab
                    where expires_at is not null and expires_at <= now() and status = 'active' and deleted_at is null
                    order by expires_at limit $1 for no key update skip locked)
     returning k.id, k.organization_id, k.project_id, k.name, ${millis("k.expires_at")} as expires_at`,
    [batchSize],
  );
  await audit.record(em, expired.map(eventOf));
  return expired.length;
}

const eventOf = (keytab: Expired): AuditEvent =>
  systemEvent({
    organizationId: keytab.organization_id,
    action: "keytab.expire",
    resourceType: "keytab",
    resourceId: keytabId(keytab.id),
    resourceName: keytab.name,
    projectId: keytab.project_id,
    details: { expired_at: new Date(Math.round(keytab.expires_at)).toISOString() },
  });
