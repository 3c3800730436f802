import { defineEntity, p } from "@mikro-orm/core";
import { id, tenantFilter, time } from "../db/columns.ts";

/**
 * One attempt to do something and what came of it. Rows are only ever added, each as the next of a chain (G-15.3).
 * Partitioned by month; the partitions are in the schema "audit".
 */
export const AuditEventTable = defineEntity({
  name: "AuditEvent",
  tableName: "audit_event",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** Part of the key because the partitions are made by it. */
    occurredAt: time().primary(),
    action: p.text(),
    outcome: p.text(),
    actorType: p.text(),
    actorId: p.uuid().nullable(),
    actorName: p.text().nullable(),
    resourceType: p.text(),
    resourceId: p.text().nullable(),
    resourceName: p.text().nullable(),
    projectId: p.uuid().nullable(),
    reason: p.text().nullable(),
    requestId: p.text().nullable(),
    sourceIp: p.text().nullable(),
    userAgent: p.text().nullable(),
    /** JSON as it was written: jsonb would rewrite numbers and the order of keys. */
    details: p.text(),
    chain: p.integer(),
    /** From 1 within the chain. */
    sequence: p.integer(),
    previousHash: p.blob(),
    hash: p.blob(),
  },
  indexes: [
    { name: "audit_event_occurred_at_index", properties: ["organizationId", "occurredAt", "id"] },
    { name: "audit_event_resource_index", properties: ["organizationId", "resourceId", "occurredAt"] },
    { name: "audit_event_actor_index", properties: ["organizationId", "actorId", "occurredAt"] },
    { name: "audit_event_request_index", properties: ["organizationId", "requestId"] },
  ],
  uniques: [{ name: "audit_event_chain_key", properties: ["organizationId", "chain", "sequence", "occurredAt"] }],
  filters: tenantFilter,
});

/** The end of a chain, which moves with each event that is added to it. */
export const AuditChainTable = defineEntity({
  name: "AuditChain",
  tableName: "audit_chain",
  properties: {
    organizationId: p.uuid().primary(),
    /** From 1 within the organization, without gaps. */
    number: p.integer().primary(),
    length: p.integer(),
    /** The hash of the last event. */
    head: p.blob(),
    /** Made with the key for this very end: who cuts the chain cannot make the one of an earlier end. */
    seal: p.blob(),
    /** A chain that nobody has written to for a while may be continued by another writer. */
    writtenAt: time().defaultRaw("now()"),
  },
  filters: tenantFilter,
});
