import { createHash } from "node:crypto";
import { publicKeyBits, subjectDer } from "../../standards/x509/certificates.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { duplicate, violates } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { type AuthorityRow, type AuthorityStatus, selectFields, statusNow } from "./authority-record.ts";
import { beginCrl } from "./crl-queue.ts";
import { type NewAuthority, requireActive } from "./new-authority.ts";
import { issueSigner } from "./ocsp-signers.ts";

/** Those that OCSP clients name an authority by. */
const hashes = ["sha1", "sha256", "sha384", "sha512"];

/** One round trip for the authority, its key, the hashes by which it is asked for, and the status of its certificate. */
const insertAuthority = `with a as (
    insert into certificate_authority (id, organization_id, name, type, parent_id, subject, serial_number, key_algorithm,
      key_size, max_path_length, name_constraints, certificate, chain_pem, fingerprint_sha256, not_before, not_after,
      sealed_key, created_by, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $10, $11::jsonb, $12, $13, $14, $15, $16, $17, $18, $19, $19)
    returning *),
  d as (insert into data_key (record_id, organization_id, wrapped) select id, $2, $20 from a),
  h as (insert into issuer_hash (name_hash, key_hash, ca_id)
    select h.name_hash, h.key_hash, a.id from a, unnest($21::bytea[], $22::bytea[]) as h (name_hash, key_hash)),
  s as (insert into certificate_status (ca_id, serial_number, organization_id, not_after)
    select parent_id, serial_number, $2, not_after from a)
  select ${selectFields} from a`;

/** Keeps a new authority in the call's transaction, and all that answers for what it will issue. */
export async function createAuthority(call: Call, seal: Core["seal"], made: NewAuthority): Promise<AuthorityRow> {
  const { open, parentId, kind, draft } = made;
  if (parentId !== undefined) await holdParent(call, parentId);
  const { certificate } = open.issuer;
  const hashesOf = (bytes: Uint8Array) => hashes.map((hash) => createHash(hash).update(bytes).digest());
  const [row] = await run<AuthorityRow>(call.em, insertAuthority, [
    open.id,
    open.organizationId,
    open.name,
    parentId === undefined ? "root" : "intermediate",
    parentId ?? open.id,
    JSON.stringify(draft.subject),
    draft.serialNumber,
    kind.algorithm,
    kind.size,
    draft.maxPathLength ?? null,
    draft.nameConstraints === undefined ? null : JSON.stringify(draft.nameConstraints),
    certificate,
    open.chainPem,
    createHash("sha256").update(certificate).digest("hex"),
    draft.notBefore,
    draft.notAfter,
    made.sealed.sealedKey,
    call.caller.id,
    call.now,
    made.sealed.wrapped,
    hashesOf(subjectDer(certificate)),
    hashesOf(publicKeyBits(certificate)),
  ]).catch(nameTaken);
  await issueSigner(call.em, seal, open, call.now);
  await beginCrl(call.em, open.organizationId, open.id);
  call.about({
    id: open.id,
    details: {
      type: parentId === undefined ? "root" : "intermediate",
      ...(parentId !== undefined && { parent_id: parentId }),
      key_algorithm: kind.algorithm,
      key_size: kind.size,
      serial_number: draft.serialNumber,
      not_after: draft.notAfter.toISOString(),
    },
  });
  return row as AuthorityRow;
}

/** What revokes or disables the parent meanwhile waits, or has come first and is seen here. */
async function holdParent(call: Call, id: string): Promise<void> {
  const [parent] = await call.query<{ status: AuthorityStatus }>(
    `select ${statusNow} as status from certificate_authority a where a.id = $1 and a.organization_id = $2 for share`,
    [id, call.caller.organizationId],
  );
  if (parent === undefined) throw new Error(`certificate authority ${id} is gone`);
  requireActive(parent.status);
}

/** A unique violation when the name is taken, told as a conflict. */
export function nameTaken(error: unknown): never {
  throw violates(error, "certificate_authority_name_key")
    ? duplicate("name", "already exists in this organization")
    : error;
}
