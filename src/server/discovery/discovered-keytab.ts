import { defineEntity, p } from "@mikro-orm/core";
import { Agent } from "../agents/agent.ts";
import { createdAt, id, tenantFilter, time } from "../db/columns.ts";
import { Keytab } from "../keytabs/keytab.ts";

/**
 * A keytab file on a host, as its agent last reported it. Its state follows from what is kept: stale, or else imported
 * when a keytab that is not deleted manages it, or else ignored when somebody said so, or else discovered (gaps 7.1).
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
    /** The scan that saw it last. */
    scanId: p.uuid(),
    discoveredAt: createdAt(),
    lastSeenAt: createdAt(),
  },
  uniques: [{ name: "discovered_keytab_agent_id_file_path_key", properties: ["agentId", "filePath"] }],
  indexes: [
    { name: "discovered_keytab_organization_id_keytab_hash_index", properties: ["organizationId", "keytabHash"] },
    { name: "discovered_keytab_managed_keytab_id_index", properties: ["managedKeytabId"] },
  ],
  filters: tenantFilter,
});
