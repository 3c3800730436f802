import { randomUUIDv7 } from "node:crypto";
import { Batches } from "../db/batches.ts";
import { type Database, type EntityManager, run } from "../db/database.ts";
import { unavailable } from "../errors.ts";

/** One attempt and what came of it (gaps section 15), without its id. */
export interface AuditEvent {
  readonly organizationId: string;
  readonly occurredAt: Date;
  /** As in "secret.read_value". */
  readonly action: string;
  readonly outcome: "success" | "denied" | "failure";
  readonly actorType: "user" | "machine_identity" | "agent" | "gateway" | "system" | "anonymous";
  readonly actorId: string | null;
  readonly actorName: string | null;
  readonly resourceType: string;
  readonly resourceId: string | null;
  readonly resourceName: string | null;
  readonly projectId: string | null;
  readonly reason: string | null;
  readonly requestId: string | null;
  readonly sourceIp: string | null;
  readonly userAgent: string | null;
  readonly details: Record<string, unknown>;
}

/** What the service did by itself, in no call of anybody. */
export function systemEvent(
  event: Pick<AuditEvent, "organizationId" | "action" | "resourceType" | "resourceId" | "resourceName"> &
    Partial<AuditEvent>,
): AuditEvent {
  const nobody = { actorType: "system", actorId: null, actorName: null } as const;
  const noCall = { requestId: null, sourceIp: null, userAgent: null };
  return {
    occurredAt: new Date(),
    outcome: "success",
    ...nobody,
    ...noCall,
    projectId: null,
    reason: null,
    details: {},
    ...event,
  };
}

const columnTypes = [
  ["id", "uuid"],
  ["organization_id", "uuid"],
  ["occurred_at", "timestamptz"],
  ["action", "text"],
  ["outcome", "text"],
  ["actor_type", "text"],
  ["actor_id", "uuid"],
  ["actor_name", "text"],
  ["resource_type", "text"],
  ["resource_id", "text"],
  ["resource_name", "text"],
  ["project_id", "uuid"],
  ["reason", "text"],
  ["request_id", "text"],
  ["source_ip", "text"],
  ["user_agent", "text"],
  ["details", "text"],
] as const;
const columnNames = columnTypes.map(([name]) => name);

/** The subquery hides how long the arrays are: else PostgreSQL would plan the statement anew for each batch. */
const insertStatement = `insert into audit_event (${columnNames.join(", ")})
  select u.* from (select ${columnTypes.map(([name, type], index) => `$${index + 1}::${type}[] as ${name}`).join(", ")} offset 0) as a,
    unnest(${columnNames.map((name) => `a.${name}`).join(", ")}) as u`;

const columns: ((event: AuditEvent) => unknown)[] = [
  () => randomUUIDv7(),
  (event) => event.organizationId,
  (event) => event.occurredAt.toISOString(),
  (event) => event.action,
  (event) => event.outcome,
  (event) => event.actorType,
  (event) => event.actorId,
  (event) => event.actorName,
  (event) => event.resourceType,
  (event) => event.resourceId,
  (event) => event.resourceName,
  (event) => event.projectId,
  (event) => event.reason,
  (event) => event.requestId,
  (event) => event.sourceIp,
  (event) => event.userAgent,
  (event) => JSON.stringify(event.details),
];

const valuesOf = (events: readonly AuditEvent[]) => columns.map((column) => events.map(column));

/** Adds events in the transaction of `em`: they commit with the change they describe. */
export async function record(em: EntityManager, events: readonly AuditEvent[]): Promise<void> {
  if (events.length > 0) await run(em, insertStatement, valuesOf(events));
}

/**
 * Writes events of calls that change nothing else. Those that arrive within one turn of the event loop share a commit,
 * and a few batches are in flight at once; nobody waits for a timer.
 */
export class AuditWriter {
  readonly #batches: Batches<AuditEvent, undefined>;

  constructor(db: Database) {
    const write = async (events: readonly AuditEvent[]) => {
      await db.query(insertStatement, valuesOf(events));
      return events.map(() => undefined);
    };
    this.#batches = new Batches(write, { mostInFlight: 4, mostInBatch: 500, mostWaiting: 50_000 });
  }

  /** Resolves when the event is committed. Throws SERVICE_UNAVAILABLE when it may not be: then nothing may be answered. */
  async write(event: AuditEvent): Promise<void> {
    if (this.#batches.isFull) throw unavailable("the audit log cannot keep up");
    try {
      await this.#batches.add(event);
    } catch (error) {
      throw unavailable("the audit log cannot be written", error);
    }
  }
}
