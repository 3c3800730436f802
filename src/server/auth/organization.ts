import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, updatedAt } from "../db/columns.ts";

const OrganizationTable = defineEntity({
  name: "Organization",
  tableName: "organization",
  properties: {
    id: id(),
    name: p.text(),
    /** The organization made at the first start, whose administrators may create others. */
    instance: p.boolean().default(false),
    /** What was set; the rest is as organization-policies.ts says. */
    passwordPolicy: p.json().defaultRaw("'{}'"),
    sessionPolicy: p.json().defaultRaw("'{}'"),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [
    { name: "organization_name_key", properties: ["name"] },
    // Also finds it: every login asks for it.
    { name: "organization_instance_key", properties: ["instance"], where: "instance" },
  ],
});

/** Holds everything; nothing of one organization is visible to another. */
export class Organization extends OrganizationTable.class {
  rename(name: string, now: Date): void {
    this.name = name;
    this.updatedAt = now;
  }
}
OrganizationTable.setClass(Organization);
