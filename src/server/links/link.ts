import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";
import { Secret } from "../secrets/secret.ts";

/**
 * Ties a secret to one place outside (G-4.1). The row is the queue too: `due_at` says when a worker looks at it next. A
 * trigger of the table secret sets it whenever a secret has a new version or another state, so that nobody can forget.
 */
export const SecretLink = defineEntity({
  name: "SecretLink",
  tableName: "secret_link",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    secretId: () => p.manyToOne(Secret).mapToPk().fieldName("secret_id").deleteRule("cascade"),
    integration: p.text(),
    name: p.text().default(""),
    /** Its own; none follows the secret. */
    environment: p.text().nullable(),
    config: p.json<Record<string, unknown>>(),
    /** Digest of the place that the configuration names: a secret has one link to it. */
    place: p.blob(),
    /** Of the place, as in "vault.example.com:8200": few are written to at one host at a time. */
    host: p.text(),
    /** JSON, sealed under the secret's key. */
    credentials: p.blob().nullable(),
    syncEnabled: p.boolean().default(true),
    status: p.enum(["pending", "syncing", "synced", "failed", "disabled"] as const).default("pending"),
    /** The entry there was made by this link, or is about to be: only such an entry is ever written or deleted. */
    owned: p.boolean().default(false),
    /** What the place confirmed last. */
    version: p.integer().nullable(),
    lastSynced: time().nullable(),
    lastErrorCode: p.text().nullable(),
    lastErrorMessage: p.text().nullable(),
    lastErrorAt: time().nullable(),
    /** Attempts that failed since the last success. */
    failures: p.integer().default(0),
    /** When it is written next; of one that is claimed, until when whoever has claimed it has time. */
    dueAt: time().nullable(),
    /** Of whoever writes or purges it, whatever its status says meanwhile: nobody else does until the claim has passed. */
    claimId: p.uuid().nullable(),
    /** What is being written under the claim; none while it is purged. */
    claimedVersion: p.integer().nullable(),
    /** Something asked for it to be written while it was being written. */
    again: p.boolean().default(false),
    createdBy: p.text(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [
    { name: "secret_link_place_key", properties: ["secretId", "integration", "place"] },
    { name: "secret_link_owner_key", properties: ["organizationId", "integration", "place"], where: "owned" },
  ],
  indexes: [
    { name: "secret_link_due_at_index", properties: ["host", "dueAt"], where: "due_at is not null" },
    { name: "secret_link_claim_index", properties: ["host"], where: "claim_id is not null" },
  ],
  filters: tenantFilter,
});
