import { defineEntity, p } from "@mikro-orm/core";
import { Agent } from "../agents/agent.ts";
import { createdAt, id, tenantFilter, time } from "../db/columns.ts";
import { Keytab } from "../keytabs/keytab.ts";

/** SQL for what makes a file unique: its path, which may be longer than an index takes, on the host of its agent. */
export const fileKey = "agent_id, sha256(replace(file_path, '\\', '\\\\')::bytea)";

/**
 * A keytab file on a host, as its agent last reported it. Its state follows from what is kept: stale, or else imported
 * when a keytab that is not deleted manages it, or else ignored when somebody said so, or else discovered (gaps 7.1).
 * Half of each page is left free (fillfactor, which the migration sets): a report that says nothing new writes there, and
 * touches no index.
 */
export const DiscoveredKeytab = defineEntity({
  name: "DiscoveredKeytab",
  tableName: "discovered_keytab",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    agentId: () => p.manyToOne(Agent).mapToPk().fieldName("agent_id").deleteRule("cascade"),
    filePath: p.text(),
    /** The place that the scan began at. */
    root: p.text(),
    keytabHash: p.text(),
    principal: p.text(),
    realm: p.text(),
    /** Unsigned, 32 bits: the highest of the principal. */
    kvno: p.bigint(),
    encryptionTypes: p.array().columnType("text[]"),
    filePermissions: p.text(),
    fileOwner: p.text(),
    /** Those that follow from the file alone; shared_key and kvno_behind take the others into account. */
    findings: p.array().columnType("text[]").defaultRaw("'{}'"),
    managedKeytabId: () => p.manyToOne(Keytab).mapToPk().fieldName("managed_keytab_id").nullable(),
    ignoredAt: time().nullable(),
    ignoredReason: p.text().nullable(),
    stale: p.boolean().default(false),
    /** The scan that saw it last, or that saw that it is gone or could not look. */
    scanId: p.uuid(),
    discoveredAt: createdAt(),
    lastSeenAt: createdAt(),
  },
  indexes: [
    {
      name: "discovered_keytab_agent_id_file_path_key",
      expression: `create unique index "discovered_keytab_agent_id_file_path_key" on "discovered_keytab" (${fileKey})`,
    },
    {
      name: "discovered_keytab_organization_id_keytab_hash_index",
      properties: ["organizationId", "keytabHash", "agentId"],
    },
    {
      name: "discovered_keytab_organization_id_principal_index",
      // A principal may be longer than an index takes.
      expression: `create index "discovered_keytab_organization_id_principal_index" on "discovered_keytab" ("organization_id", hashtextextended(principal, 0), "kvno") where not stale`,
    },
    { name: "discovered_keytab_managed_keytab_id_index", properties: ["managedKeytabId"] },
  ],
  filters: tenantFilter,
});
