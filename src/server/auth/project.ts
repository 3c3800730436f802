import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, updatedAt } from "../db/columns.ts";

const ProjectTable = defineEntity({
  name: "Project",
  tableName: "project",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    name: p.text(),
    description: p.text().default(""),
    /** Within what a secret's key is unique (G-2.7). */
    keyScope: p.enum(["project", "environment"] as const).default("project"),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [{ name: "project_organization_id_name_key", properties: ["organizationId", "name"] }],
  filters: tenantFilter,
});

/** Holds secrets. */
export class Project extends ProjectTable.class {}
ProjectTable.setClass(Project);
