import { defineEntity, p } from "@mikro-orm/core";
import { createdAt } from "../db/columns.ts";

/** The outcome of a call that carried an Idempotency-Key (G-0.13), sealed under a key of its own organization. */
export const IdempotencyRecord = defineEntity({
  name: "IdempotencyRecord",
  tableName: "idempotency_record",
  properties: {
    identityId: p.uuid().primary(),
    key: p.text().primary(),
    organizationId: p.uuid(),
    /** Where the permission is asked for again when the outcome is replayed. */
    projectId: p.uuid().nullable(),
    /** Keyed hash of method, path and body. */
    request: p.blob(),
    /** Empty once a credential that it showed is shown no more. */
    outcome: p.blob(),
    showsCredential: p.boolean().default(false),
    createdAt: createdAt().index("idempotency_record_created_at_index"),
  },
  indexes: [{ name: "idempotency_record_credential_index", properties: ["createdAt"], where: "shows_credential" }],
});
