import { defineEntity, p } from "@mikro-orm/core";
import type { PasswordPolicy } from "../../standards/password-policy.ts";
import { createdAt, id, updatedAt } from "../db/columns.ts";
import {
  changedPasswordPolicy,
  changedSessionPolicy,
  type SessionPolicy,
  type Settings,
} from "./organization-policies.ts";

const OrganizationTable = defineEntity({
  name: "Organization",
  tableName: "organization",
  properties: {
    id: id(),
    name: p.text(),
    /** The organization made at the first start, whose administrators may create others. */
    instance: p.boolean().default(false),
    /** What was set; the rest is as organization-policies.ts says. */
    passwordPolicy: p.json<Settings<PasswordPolicy>>().defaultRaw("'{}'"),
    sessionPolicy: p.json<Settings<SessionPolicy>>().defaultRaw("'{}'"),
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

  /** What is left out stays as it is. Throws VALIDATION_ERROR when no password could be as required. */
  requireOfPasswords(change: Settings<PasswordPolicy>, now: Date): void {
    this.passwordPolicy = changedPasswordPolicy(this.passwordPolicy, change);
    this.updatedAt = now;
  }

  /** What is left out stays as it is. */
  requireOfSessions(change: Settings<SessionPolicy>, now: Date): void {
    this.sessionPolicy = changedSessionPolicy(this.sessionPolicy, change);
    this.updatedAt = now;
  }
}
OrganizationTable.setClass(Organization);
