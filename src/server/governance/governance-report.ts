import { defineEntity, p } from "@mikro-orm/core";
import { id, tenantFilter, time } from "../db/columns.ts";

/** A governance report as it was imported, and what its last evaluation found. The newest of an organization is current. */
export const GovernanceReport = defineEntity({
  name: "GovernanceReport",
  tableName: "governance_report",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    report: p.json(),
    evaluation: p.json(),
    importedBy: p.text(),
    importedAt: time(),
  },
  indexes: [{ name: "governance_report_organization_id_index", properties: ["organizationId", "importedAt", "id"] }],
  filters: tenantFilter,
});
