import { defineEntity, p } from "@mikro-orm/core";
import { Project } from "../auth/project.ts";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";

/** A keytab file under management: what its current version holds. The file itself is in the versions. */
export const Keytab = defineEntity({
  name: "Keytab",
  tableName: "keytab",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** A project that has keytabs does not go. Those that are deleted belong to none any more. */
    projectId: () => p.manyToOne(Project).mapToPk().fieldName("project_id").nullable().deleteRule("restrict"),
    name: p.text(),
    principal: p.text(),
    realm: p.text(),
    /** Unsigned, 32 bits. */
    kvno: p.bigint(),
    encryptionTypes: p.array().columnType("text[]"),
    /** What was asked for: a keytab whose time is over counts as expired before the sweep says so. */
    status: p.enum(["active", "disabled", "expired"] as const).default("active"),
    cipherCompliance: p.enum(["compliant", "warning", "non_compliant"] as const),
    source: p.enum(["import", "discovered", "agent"] as const),
    version: p.integer().default(1),
    entryCount: p.integer(),
    keytabHash: p.text(),
    expiresAt: time().nullable(),
    notes: p.text().default(""),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
    deletedAt: time().nullable(),
  },
  indexes: [
    { name: "keytab_organization_id_created_at_index", properties: ["organizationId", "createdAt", "id"] },
    {
      name: "keytab_expires_at_index",
      properties: ["expiresAt"],
      where: "expires_at is not null and status = 'active' and deleted_at is null",
    },
    { name: "keytab_project_id_index", properties: ["projectId"] },
  ],
  uniques: [
    {
      name: "keytab_organization_id_keytab_hash_key",
      properties: ["organizationId", "keytabHash"],
      where: "deleted_at is null",
    },
  ],
  filters: tenantFilter,
});

/** One file of a keytab, sealed. (keytab, version) is unique: of two writers of one version, one fails. */
export const KeytabVersion = defineEntity({
  name: "KeytabVersion",
  tableName: "keytab_version",
  properties: {
    id: id(),
    keytabId: () => p.manyToOne(Keytab).mapToPk().fieldName("keytab_id").deleteRule("cascade"),
    version: p.integer(),
    organizationId: p.uuid(),
    sealed: p.blob(),
    encryptionTypes: p.array().columnType("text[]"),
    kvno: p.bigint(),
    keytabHash: p.text(),
    changedBy: p.uuid(),
    changeReason: p.text().default(""),
    createdAt: createdAt(),
  },
  uniques: [{ name: "keytab_version_keytab_id_version_key", properties: ["keytabId", "version"] }],
  filters: tenantFilter,
});
