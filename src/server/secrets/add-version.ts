import type { KeyObject } from "node:crypto";
import { run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";
import type { ChangeType, Secret } from "./secret.ts";
import { valuePlace } from "./store-secret.ts";

/** A version to be. */
interface VersionDraft {
  readonly value: Uint8Array;
  readonly changeType: ChangeType;
  /** The id of an identity, or "system". */
  readonly createdBy: string;
  readonly reason: string;
  /** Of a rollback: the version that it goes back to. */
  readonly source?: number;
}

/**
 * Makes the next version of a secret in the call's transaction, and answers its number. The secret's row is locked, so
 * two writers make two versions, one after the other. `key` is the secret's own.
 */
export async function addVersion(
  { em, now }: Pick<Call, "em" | "now">,
  seal: Seal,
  secret: Secret,
  key: KeyObject,
  { value, changeType, createdBy, reason, source }: VersionDraft,
): Promise<number> {
  const { id, organizationId } = secret;
  const version = secret.addVersion(now);
  const sealed = seal.seal(key, valuePlace(organizationId, id, version), value);
  await run(
    em,
    `insert into secret_version
       (secret_id, version, organization_id, sealed, created_at, created_by, change_type, change_reason, source_version)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [id, version, organizationId, sealed, now, createdBy, changeType, reason, source ?? null],
  );
  return version;
}
