import { type AuditEvent, type AuditWriter, systemEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";
import type { Call } from "../wire/call.ts";
import type { Secret } from "./secret.ts";

interface Expired {
  readonly id: string;
  readonly organization_id: string;
  readonly project_id: string;
  readonly key: string;
  readonly expires_at: string;
}

const batchSize = 1000;
const returning = "returning s.id, s.organization_id, s.project_id, s.key, s.expires_at";

/** Deletes softly the secret that holds a key, if its life is over. */
export async function expireKey(call: Call, projectId: string, keyEnvironment: string, key: string): Promise<void> {
  const expired = await run<Expired>(
    call.em,
    `update secret s set status = 'deleted', deleted_at = s.expires_at, updated_at = s.expires_at
     where s.project_id = $1 and s.key_environment = $2 and s.key = $3 and s.status <> 'deleted' and s.expires_at <= now()
     ${returning}`,
    [projectId, keyEnvironment, key],
  );
  for (const { id } of expired) recordExpiry(call, { id, key, projectId });
}

/** For a secret whose life is over, and the sweep not yet come by. */
export function recordExpiry(call: Call, { id, key, projectId }: Pick<Secret, "id" | "key" | "projectId">): void {
  call.alsoRecord("secret.expire", { id, name: key, projectId }, true);
}

/** Writes down, within a minute, what readers see from the instant a secret's life is over (gaps 2.8). */
export function expiryJob({ db, audit, logger }: Core): Job {
  return {
    name: "secret.expire",
    schedule: "* * * * *",
    async run() {
      let swept = 0;
      for (let batch = batchSize; batch === batchSize; swept += batch)
        batch = await asSystem(db, (em) => sweep(em, audit));
      if (swept > 0) logger.info({ secrets: swept }, "secrets expired");
    },
  };
}

async function sweep(em: EntityManager, audit: AuditWriter): Promise<number> {
  const expired = await run<Expired>(
    em,
    `update secret s set status = 'deleted', deleted_at = s.expires_at, updated_at = s.expires_at
     where s.id in (select id from secret where expires_at <= now() and status <> 'deleted'
                    order by expires_at limit $1 for update skip locked)
     ${returning}`,
    [batchSize],
  );
  await audit.record(em, expired.map(eventOf));
  return expired.length;
}

const eventOf = (secret: Expired): AuditEvent =>
  systemEvent({
    organizationId: secret.organization_id,
    action: "secret.expire",
    resourceType: "secret",
    resourceId: secret.id,
    resourceName: secret.key,
    projectId: secret.project_id,
    details: { expired_at: new Date(secret.expires_at).toISOString() },
  });
