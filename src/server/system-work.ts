import { type AuditEvent, systemEvent } from "./audit/audit-writer.ts";
import type { Core } from "./context.ts";
import { inTransaction, run } from "./db/database.ts";
import type { Call } from "./wire/call.ts";

/** What a change needs of that in which it happens, a call or the system's own work. All of it commits together. */
export type Work = Pick<Call, "alsoRecord" | "em" | "now" | "query">;

/**
 * Does what no call does, in one transaction that sees the rows of one organization only. What `alsoRecord` notes is
 * recorded with it as done by the system.
 */
export async function inSystemWork<T>(
  { db, audit }: Pick<Core, "audit" | "db">,
  organizationId: string,
  work: (work: Work) => Promise<T>,
): Promise<T> {
  const em = db.fork(organizationId);
  const now = new Date();
  const events: AuditEvent[] = [];
  return inTransaction(em, async () => {
    const result = await work({
      em,
      now,
      query: (text, values) => run(em, text, values),
      alsoRecord(action, { type, id, name, projectId, reason, details }) {
        events.push(
          systemEvent({
            organizationId,
            occurredAt: now,
            action,
            resourceType: type ?? action.split(".", 1)[0] ?? "",
            resourceId: id ?? null,
            resourceName: name ?? null,
            projectId: projectId ?? null,
            reason: reason || null,
            details: { ...details },
          }),
        );
      },
    });
    await em.flush();
    await audit.record(em, events);
    return result;
  });
}
