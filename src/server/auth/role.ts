import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, updatedAt } from "../db/columns.ts";

/** A role that an organization made for itself; bindings name it as they name the built-in ones. */
export const Role = defineEntity({
  name: "Role",
  tableName: "role",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    name: p.text(),
    description: p.text().default(""),
    permissions: p.array().columnType("text[]").defaultRaw("'{}'"),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [{ name: "role_organization_id_name_key", properties: ["organizationId", "name"] }],
  filters: tenantFilter,
});
