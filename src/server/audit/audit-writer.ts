import { Batches } from "../db/batches.ts";
import { type Database, type EntityManager, inTransaction, onOutcome, type Queries, run } from "../db/database.ts";
import { unavailable } from "../errors.ts";
import { continueLanes, insertStatement } from "./chained-insert.ts";
import { Lanes } from "./lanes.ts";

/** One attempt and what came of it (gaps section 15), before it has its place in a chain. */
export interface AuditEvent {
  /** Only where it has one already. */
  readonly id?: string;
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

/**
 * Adds events to the audit log, each as the next of a chain of its organization (docs/decisions/0012). Throws
 * SERVICE_UNAVAILABLE when an event may not be committed: then nothing may be answered.
 */
export class AuditWriter {
  readonly #db: Database;
  readonly #lanes: Lanes;
  readonly #batches: Batches<AuditEvent, undefined>;

  constructor(db: Database, installationKey: Buffer) {
    this.#db = db;
    this.#lanes = new Lanes(installationKey);
    const write = async (events: readonly AuditEvent[]) => {
      await this.#writeBatch(events);
      return events.map(() => undefined);
    };
    this.#batches = new Batches(write, { mostInFlight: 4, mostInBatch: 500, mostWaiting: 50_000 });
  }

  /**
   * Writes an event of a call that changes nothing else, and resolves when it is committed. Those that arrive within one
   * turn of the event loop share a commit, and a few batches are in flight at once; nobody waits for a timer.
   */
  async write(event: AuditEvent): Promise<void> {
    if (this.#batches.isFull) throw unavailable("the audit log cannot keep up");
    try {
      await this.#batches.add(event);
    } catch (error) {
      throw unavailable("the audit log cannot be written", error);
    }
  }

  /**
   * Adds events in the transaction of `em`: they commit with the change they describe. Best as the last statement: from
   * here until the commit, whoever else opens a chain of the organization may wait.
   */
  async record(em: EntityManager, events: readonly AuditEvent[]): Promise<void> {
    if (events.length === 0) return;
    try {
      const transaction: Queries = { query: (text, values) => run(em, text, values) };
      const lanes = await this.#lanes.take(transaction, organizationsOf(events));
      onOutcome(em, (committed) => {
        if (committed) this.#lanes.giveBack(lanes.values());
      });
      await run(em, insertStatement, continueLanes(lanes, events));
    } catch (error) {
      throw unavailable("the audit log cannot be written", error);
    }
  }

  /** In one statement as long as there is a lane for each organization. */
  async #writeBatch(events: readonly AuditEvent[]): Promise<void> {
    const lanes = this.#lanes.takeFree(organizationsOf(events));
    if (lanes === undefined) {
      const em = this.#db.forkWithoutTenant();
      await inTransaction(em, () => this.record(em, events));
      return;
    }
    await this.#db.query(insertStatement, continueLanes(lanes, events));
    this.#lanes.giveBack(lanes.values());
  }
}

const organizationsOf = (events: readonly AuditEvent[]) => new Set(events.map(({ organizationId }) => organizationId));
