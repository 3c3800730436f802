import { defineEntity, p } from "@mikro-orm/core";
import { id, tenantFilter, time } from "../db/columns.ts";

/** One attempt to do something and what came of it. Rows are only ever added (G-15.3). */
export const AuditEventTable = defineEntity({
  name: "AuditEvent",
  tableName: "audit_event",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    occurredAt: time(),
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
  },
  indexes: [
    { name: "audit_event_occurred_at_index", properties: ["organizationId", "occurredAt", "id"] },
    { name: "audit_event_resource_index", properties: ["organizationId", "resourceId", "occurredAt"] },
    { name: "audit_event_actor_index", properties: ["organizationId", "actorId", "occurredAt"] },
    { name: "audit_event_request_index", properties: ["organizationId", "requestId"] },
  ],
  filters: tenantFilter,
});
