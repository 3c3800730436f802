import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ChainedEvent } from "../../standards/audit-chain.ts";
import { millis } from "../db/columns.ts";

/** A row of audit_event as it is read. */
export interface EventRow extends Omit<ChainedEvent, "occurredAt"> {
  /** In ms since 1970. */
  readonly occurredAt: number;
}

/** The columns of audit_event, as `a`, that make an EventRow. */
export const eventFields = `a.id, ${millis("a.occurred_at")} as "occurredAt", a.action, a.outcome,
  a.actor_type as "actorType", a.actor_id as "actorId", a.actor_name as "actorName", a.resource_type as "resourceType",
  a.resource_id as "resourceId", a.resource_name as "resourceName", a.project_id as "projectId", a.reason,
  a.request_id as "requestId", a.source_ip as "sourceIp", a.user_agent as "userAgent", a.details, a.chain, a.sequence,
  encode(a.previous_hash, 'hex') as "previousHash", encode(a.hash, 'hex') as hash`;

/** The event as its hash covers it. A time that was tampered with may be none that there is. */
export function chainedEventOf(row: EventRow): ChainedEvent {
  const time = new Date(Math.round(row.occurredAt));
  return { ...row, occurredAt: Number.isNaN(time.getTime()) ? String(row.occurredAt) : time.toISOString() };
}

/** The event as it is answered. */
export const answerOf = (row: EventRow) => ({
  id: row.id,
  occurredAt: timestampFromMs(Math.round(row.occurredAt)),
  action: row.action,
  outcome: row.outcome,
  actor: { type: row.actorType, id: row.actorId ?? undefined, name: row.actorName ?? undefined },
  resource: { type: row.resourceType, id: row.resourceId ?? undefined, name: row.resourceName ?? undefined },
  projectId: row.projectId ?? undefined,
  reason: row.reason ?? undefined,
  requestId: row.requestId ?? undefined,
  sourceIp: row.sourceIp ?? undefined,
  userAgent: row.userAgent ?? undefined,
  details: JSON.parse(row.details) as JsonObject,
  chain: row.chain,
  sequence: row.sequence,
  previousHash: row.previousHash,
  hash: row.hash,
});
