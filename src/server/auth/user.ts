import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";

const UserTable = defineEntity({
  name: "User",
  tableName: "user_account",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** Unique in the installation: a login names no organization. */
    username: p.text(),
    email: p.text().nullable(),
    displayName: p.text(),
    status: p.enum(["pending", "active", "disabled"] as const).default("pending"),
    rateLimitPerMinute: p.integer().nullable(),
    /** Tokens and sessions carry the number that stood here when they were issued; another one ends them. */
    credentialVersion: p.integer().default(1),
    /** The one token or session that a change of password did not end. */
    survivingCredential: p.uuid().nullable(),
    srpGroup: p.text().nullable(),
    srpSalt: p.blob().nullable(),
    /** Sealed under the user's own data key. */
    srpVerifier: p.blob().nullable(),
    enrollmentTokenHash: p.blob().nullable(),
    enrollmentExpiresAt: time().nullable(),
    lastAuthenticatedAt: time().nullable(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [{ name: "user_account_username_key", properties: ["username"] }],
  indexes: [
    { name: "user_account_organization_id_username_index", properties: ["organizationId", "username"] },
    { name: "user_account_organization_id_status_index", properties: ["organizationId", "status", "username"] },
  ],
  filters: tenantFilter,
});

/** A person, who logs in with a password that the server never sees (G-9.3, G-9.4). */
export class User extends UserTable.class {}
UserTable.setClass(User);
