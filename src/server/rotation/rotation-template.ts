import { defineEntity, p } from "@mikro-orm/core";
import { Project } from "../auth/project.ts";
import { createdAt, id, tenantFilter, updatedAt } from "../db/columns.ts";

/** An entry of the catalog of how an organization wants to rotate. Nothing of it is applied to anything (gaps 5). */
export const RotationTemplate = defineEntity({
  name: "RotationTemplate",
  tableName: "rotation_template",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    name: p.text(),
    description: p.text().default(""),
    projectId: () => p.manyToOne(Project).mapToPk().fieldName("project_id").deleteRule("cascade").nullable(),
    rotationIntervalDays: p.integer().nullable(),
    leadTimeDays: p.integer().nullable(),
    gracePeriodDays: p.integer().nullable(),
    secretCustodyMode: p.enum(["local", "transient", "delegated"] as const).default("local"),
    isDefault: p.boolean().default(false),
    createdBy: p.text(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [
    { name: "rotation_template_name_key", properties: ["organizationId", "name"] },
    { name: "rotation_template_default_key", properties: ["organizationId"], where: "is_default" },
  ],
  indexes: [{ name: "rotation_template_project_id_index", properties: ["projectId"], where: "project_id is not null" }],
  filters: tenantFilter,
});
