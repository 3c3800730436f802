import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, updatedAt } from "../db/columns.ts";

/** Which encryption types the keytabs of an organization may hold. Made on first use. */
export const CipherPolicy = defineEntity({
  name: "CipherPolicy",
  tableName: "cipher_policy",
  properties: {
    id: id(),
    organizationId: p.uuid().unique("cipher_policy_organization_id_key"),
    /** As given, trimmed. */
    allowedCiphers: p.array().columnType("text[]"),
    deprecatedCiphers: p.array().columnType("text[]"),
    enforcementMode: p.enum(["warn", "enforce"] as const),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  filters: tenantFilter,
});
