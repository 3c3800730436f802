import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { type AuditEvent, systemEvent } from "../../src/server/audit/audit-writer.ts";
import { installationChainKey } from "../../src/server/audit/chain-key.ts";
import { verifyLog } from "../../src/server/audit/verify-log.ts";
import type { Queries } from "../../src/server/db/database.ts";
import { asSystem } from "../../src/server/jobs.ts";
import { organizationChainKey } from "../../src/standards/audit-chain.ts";
import { type OpenCore, withCore } from "./core.ts";
import type { Effort } from "./options.ts";
import { inTurns } from "./rates.ts";
import type { Stage } from "./stage.ts";
import { atLeast, type Line } from "./table.ts";

const batch = 1000;

/** How fast the audit log is verified, beside reading its rows and hashing each once. */
export function measureVerification(stage: Stage, { rounds, auditEvents }: Effort): Promise<Line[]> {
  return withCore(stage, "verification", async (core) => {
    const { db, seal, organizationId } = core;
    await addEvents(core, auditEvents);
    // As PostgreSQL does by itself within a minute.
    await db.pool.query("analyze audit_event");
    const { key: installationKey } = await installationChainKey(seal);
    const key = organizationChainKey(installationKey, organizationId);
    const verify = async () => {
      const { verifier, broken } = await verifyLog(db, key, organizationId, new AbortController().signal);
      if (broken !== undefined) throw new Error(`chain ${broken.chain} is broken at ${broken.sequence}`);
      return verifier.checked;
    };
    const rates = await inTurns(verify, () => readAndHash(db, organizationId), rounds);
    return [{ scenario: "verify the audit log", against: "read and hash", target: atLeast(0.5), ...rates }];
  });
}

async function addEvents({ db, audit, organizationId }: OpenCore, count: number): Promise<void> {
  for (let added = 0; added < count; added += batch) {
    await asSystem(db, (em) =>
      audit.record(
        em,
        Array.from({ length: batch }, () => eventOf(organizationId)),
      ),
    );
  }
}

const eventOf = (organizationId: string): AuditEvent => ({
  ...systemEvent({
    organizationId,
    action: "secret.read_value",
    resourceType: "secret",
    resourceId: randomUUID(),
    resourceName: "key-000001",
  }),
  actorType: "machine_identity",
  actorId: randomUUID(),
  actorName: "bench",
  projectId: organizationId,
  requestId: randomUUID(),
  sourceIp: "127.0.0.1",
  details: { version: 1 },
});

/** Chain after chain, a thousand places at a time. */
async function readAndHash(queries: Queries, organizationId: string): Promise<number> {
  const key = randomBytes(32);
  let read = 0;
  const chains = await queries.query<{ number: number; length: number }>(
    "select number, length from audit_chain where organization_id = $1",
    [organizationId],
  );
  for (const { number, length } of chains) {
    for (let after = 0; after < length; after += batch) {
      const rows = await queries.query<{ text: string }>(
        `select a::text as text from audit_event a
         where organization_id = $1 and chain = $2 and sequence > $3 and sequence <= $4 order by sequence`,
        [organizationId, number, after, after + batch],
      );
      for (const { text } of rows) createHmac("sha256", key).update(text).digest();
      read += rows.length;
    }
  }
  return read;
}
