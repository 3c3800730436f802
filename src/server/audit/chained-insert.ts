import { randomUUIDv7 } from "node:crypto";
import { type ChainedEvent, hashOf, sealOfEnd } from "../../standards/audit-chain.ts";
import type { AuditEvent } from "./audit-writer.ts";
import type { Lane } from "./lanes.ts";

type Columns<Row> = readonly { readonly name: string; readonly type: string; readonly of: (row: Row) => unknown }[];

/** A row of audit_event, and the organization whose it is. */
type EventRow = ChainedEvent & { readonly organizationId: string };

const eventColumns: Columns<EventRow> = [
  { name: "id", type: "uuid", of: (row) => row.id },
  { name: "organization_id", type: "uuid", of: (row) => row.organizationId },
  { name: "occurred_at", type: "timestamptz", of: (row) => row.occurredAt },
  { name: "action", type: "text", of: (row) => row.action },
  { name: "outcome", type: "text", of: (row) => row.outcome },
  { name: "actor_type", type: "text", of: (row) => row.actorType },
  { name: "actor_id", type: "uuid", of: (row) => row.actorId },
  { name: "actor_name", type: "text", of: (row) => row.actorName },
  { name: "resource_type", type: "text", of: (row) => row.resourceType },
  { name: "resource_id", type: "text", of: (row) => row.resourceId },
  { name: "resource_name", type: "text", of: (row) => row.resourceName },
  { name: "project_id", type: "uuid", of: (row) => row.projectId },
  { name: "reason", type: "text", of: (row) => row.reason },
  { name: "request_id", type: "text", of: (row) => row.requestId },
  { name: "source_ip", type: "text", of: (row) => row.sourceIp },
  { name: "user_agent", type: "text", of: (row) => row.userAgent },
  { name: "details", type: "text", of: (row) => row.details },
  { name: "chain", type: "int", of: (row) => row.chain },
  { name: "sequence", type: "int", of: (row) => row.sequence },
  { name: "previous_hash", type: "bytea", of: (row) => bytes(row.previousHash) },
  { name: "hash", type: "bytea", of: (row) => bytes(row.hash) },
];

/** A chain whose end moves, and how long it was before. */
interface Move {
  readonly lane: Lane;
  readonly previousLength: number;
}

const moveColumns: Columns<Move> = [
  { name: "organization_id", type: "uuid", of: ({ lane }) => lane.organizationId },
  { name: "number", type: "int", of: ({ lane }) => lane.chain },
  { name: "previous_length", type: "int", of: ({ previousLength }) => previousLength },
  { name: "length", type: "int", of: ({ lane }) => lane.length },
  { name: "head", type: "bytea", of: ({ lane }) => bytes(lane.hash) },
  { name: "seal", type: "bytea", of: ({ lane }) => bytes(sealOfEnd(lane.key, lane)) },
];

const bytes = (hex: string) => `\\x${hex}`;

/** The subquery hides how long the arrays are: else PostgreSQL would plan the statement anew for each batch. */
function rowsOf(columns: Columns<never>, firstParameter: number): string {
  const arrays = columns.map(({ name, type }, index) => `$${firstParameter + index}::${type}[] as ${name}`);
  const names = columns.map(({ name }) => name);
  return `(select ${arrays.join(", ")} offset 0) as a,
    unnest(${names.map((name) => `a.${name}`).join(", ")}) as r (${names.join(", ")})`;
}

const inserted = eventColumns.map(({ name }) =>
  name === "sequence" ? "case when (select count(*) from moved) = cardinality($1) then r.sequence end" : `r.${name}`,
);

/**
 * Adds events and moves the ends of their chains. If an end is not where its lane left it, the events have no sequence,
 * which the table refuses, and nothing of the statement remains.
 */
export const insertStatement = `
  with moved as (
    update audit_chain c set length = r.length, head = r.head, seal = r.seal, written_at = now()
    from ${rowsOf(moveColumns, 1)}
    where c.organization_id = r.organization_id and c.number = r.number and c.length = r.previous_length
    returning 1)
  insert into audit_event (${eventColumns.map(({ name }) => name).join(", ")})
  select ${inserted.join(", ")} from ${rowsOf(eventColumns, moveColumns.length + 1)}`;

/** The values of `insertStatement`: continues the lane of each event's organization, and moves it on. */
export function continueLanes(lanes: ReadonlyMap<string, Lane>, events: readonly AuditEvent[]): unknown[][] {
  const moves = [...lanes.values()].map((lane) => ({ lane, previousLength: lane.length }));
  const rows = events.map((event) => next(lanes.get(event.organizationId) as Lane, event));
  return [...valuesOf(moveColumns, moves), ...valuesOf(eventColumns, rows)];
}

const valuesOf = <Row>(columns: Columns<Row>, rows: readonly Row[]) => columns.map((column) => rows.map(column.of));

/** The next row of a lane. What is hashed is what will be read again: ids in lower case, and no lone surrogates. */
function next(lane: Lane, event: AuditEvent): EventRow {
  const content = {
    id: event.id ?? randomUUIDv7(),
    occurredAt: event.occurredAt.toISOString(),
    action: event.action,
    outcome: event.outcome,
    actorType: event.actorType,
    actorId: event.actorId?.toLowerCase() ?? null,
    actorName: event.actorName?.toWellFormed() ?? null,
    resourceType: event.resourceType,
    resourceId: event.resourceId?.toWellFormed() ?? null,
    resourceName: event.resourceName?.toWellFormed() ?? null,
    projectId: event.projectId?.toLowerCase() ?? null,
    reason: event.reason?.toWellFormed() ?? null,
    requestId: event.requestId,
    sourceIp: event.sourceIp,
    userAgent: event.userAgent?.toWellFormed() ?? null,
    details: JSON.stringify(event.details),
  };
  const previousHash = lane.hash;
  lane.length += 1;
  lane.hash = hashOf(lane.key, previousHash, content);
  const { organizationId, chain, length: sequence, hash } = lane;
  return { ...content, organizationId, chain, sequence, previousHash, hash };
}
