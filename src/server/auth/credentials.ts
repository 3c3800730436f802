import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, time } from "../db/columns.ts";

/** A bearer token that lasts longer than a login and may do less than its owner (gaps section 9.3). */
export const ApiToken = defineEntity({
  name: "ApiToken",
  tableName: "api_token",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** A user or a machine identity. */
    ownerId: p.uuid(),
    /** The token that it was made with, and with which it ends. */
    parentId: p.uuid().nullable().index("api_token_parent_id_index"),
    name: p.text(),
    prefix: p.text(),
    hash: p.blob(),
    /** Empty means all that the owner holds. */
    permissions: p.array().columnType("text[]").defaultRaw("'{}'"),
    /** Empty means all projects. */
    projectIds: p.array().columnType("uuid[]").defaultRaw("'{}'"),
    allowedIps: p.array().columnType("text[]").defaultRaw("'{}'"),
    rateLimitPerMinute: p.integer().nullable(),
    expiresAt: time().nullable(),
    lastUsedAt: time().nullable(),
    revokedAt: time().nullable(),
    revokedReason: p.text().nullable(),
    createdAt: createdAt(),
  },
  uniques: [{ name: "api_token_hash_key", properties: ["hash"] }],
  indexes: [
    { name: "api_token_owner_id_index", properties: ["ownerId", "id"] },
    { name: "api_token_expires_at_index", properties: ["expiresAt"] },
    { name: "api_token_revoked_at_index", properties: ["revokedAt"], where: "revoked_at is not null" },
  ],
  filters: tenantFilter,
});

/** What a browser's cookie stands for (gaps section 10); only a keyed hash of the cookie is kept. */
export const Session = defineEntity({
  name: "Session",
  tableName: "session",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    identityId: p.uuid().index("session_identity_id_index"),
    hash: p.blob(),
    credentialVersion: p.integer(),
    lastUsedAt: time().defaultRaw("now()"),
    expiresAt: time().index("session_expires_at_index"),
    endedAt: time().nullable(),
    createdAt: createdAt(),
  },
  uniques: [{ name: "session_hash_key", properties: ["hash"] }],
  filters: tenantFilter,
});

/** An access token that was logged out before its end, kept until then. */
export const RevokedToken = defineEntity({
  name: "RevokedToken",
  tableName: "revoked_token",
  properties: {
    /** The token's jti. */
    id: p.uuid().primary(),
    organizationId: p.uuid(),
    expiresAt: time().index("revoked_token_expires_at_index"),
  },
  filters: tenantFilter,
});
