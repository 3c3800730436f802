import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";

const MachineIdentityTable = defineEntity({
  name: "MachineIdentity",
  tableName: "machine_identity",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    name: p.text(),
    clientId: p.text().defaultRaw("(uuidv7())::text"),
    status: p.enum(["active", "disabled"] as const).default("active"),
    accessTokenTtlSeconds: p.integer().nullable(),
    allowedIps: p.array().columnType("text[]").defaultRaw("'{}'"),
    rateLimitPerMinute: p.integer().nullable(),
    /** Access tokens carry the number that stood here when they were issued; another one ends them. */
    credentialVersion: p.integer().default(1),
    lastAuthenticatedAt: time().nullable(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [
    { name: "machine_identity_organization_id_name_key", properties: ["organizationId", "name"] },
    { name: "machine_identity_client_id_key", properties: ["clientId"] },
  ],
  filters: tenantFilter,
});

/** The identity of a program, which authenticates with a client id and one of its client secrets. */
export class MachineIdentity extends MachineIdentityTable.class {}
MachineIdentityTable.setClass(MachineIdentity);

/** A role held by an identity, at the organization or, with a project, at that project only (G-18.1). */
export const RoleBinding = defineEntity({
  name: "RoleBinding",
  tableName: "role_binding",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    identityId: p.uuid().index("role_binding_identity_id_index"),
    role: p.text(),
    projectId: p.uuid().nullable().index("role_binding_project_id_index"),
  },
  indexes: [{ name: "role_binding_organization_id_role_index", properties: ["organizationId", "role"] }],
  filters: tenantFilter,
});

/** What a machine identity proves itself with; only a keyed hash of it is kept. */
export const ClientSecret = defineEntity({
  name: "ClientSecret",
  tableName: "client_secret",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    machineIdentityId: () =>
      p.manyToOne(MachineIdentity).mapToPk().fieldName("machine_identity_id").deleteRule("cascade"),
    description: p.text().default(""),
    prefix: p.text(),
    hash: p.blob(),
    maxUses: p.integer().nullable(),
    useCount: p.integer().default(0),
    revokedAt: time().nullable(),
    revokedReason: p.text().nullable(),
    expiresAt: time().nullable(),
    createdAt: createdAt(),
  },
  uniques: [{ name: "client_secret_machine_identity_id_hash_key", properties: ["machineIdentityId", "hash"] }],
  filters: tenantFilter,
});
