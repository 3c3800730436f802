import { randomUUIDv7 } from "node:crypto";
import { authorizeInProject } from "../auth/find-project.ts";
import { run } from "../db/database.ts";
import { duplicate, referenceNotFound, violates } from "../errors.ts";
import type { Place, Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";
import { lockKeytab } from "./find-keytab.ts";
import { linkFoundFiles } from "./found-files.ts";
import type { Keytab } from "./keytab.ts";
import { judge, type KeytabFile, readKeytab } from "./keytab-file.ts";
import { type KeytabFields, keytabId, selectFields } from "./keytab-record.ts";

/** A keytab to be, with its first file. */
export interface KeytabDraft {
  readonly bytes: Uint8Array;
  readonly name: string;
  readonly projectId: string | null;
  /** May be past: then it is expired from the beginning. */
  readonly expiresAt: Date | null;
  readonly notes: string;
  readonly source: Keytab["source"];
  /** Why there is a version 1. */
  readonly changeReason: string;
}

/** Where the file of a version is sealed to. */
export const filePlace = (organizationId: string, recordId: string, version: number): Place => ({
  organizationId,
  kind: "keytab.file",
  recordId,
  version,
});

/**
 * One round trip for the keytab, its key and its first version; nothing at all when the organization has the file, or
 * has no such project. The project is held, so that it is not removed meanwhile.
 */
const insertKeytab = `with p as (select id from project where id = $3 and organization_id = $2 for key share),
  k as (
    insert into keytab (id, organization_id, project_id, name, principal, realm, kvno, encryption_types, entry_count,
      keytab_hash, cipher_compliance, source, expires_at, notes, created_at, updated_at)
    select $1, $2, $3::uuid, $4, $5, $6, $7::bigint, $8::text[], $9::int, $10, $11, $12, $13::timestamptz, $14,
      $15::timestamptz, $15
    where $3::uuid is null or exists (select from p)
    on conflict (organization_id, keytab_hash) where deleted_at is null do nothing returning *),
  d as (insert into data_key (record_id, organization_id, wrapped) select id, $2, $16 from k),
  v as (insert into keytab_version (keytab_id, version, organization_id, sealed, encryption_types, kvno, keytab_hash,
      changed_by, change_reason, created_at)
    select id, version, $2, $17, encryption_types, kvno, keytab_hash, $18, $19, created_at from k)
  select exists (select from p) as "hasProject", ${selectFields} from (select) one left join k on true`;

/** Stores a new keytab in the call's transaction, where the caller may. Refuses a file that the organization has already. */
export async function storeKeytab(call: Call, seal: Seal, draft: KeytabDraft): Promise<KeytabFields> {
  const { projectId } = draft;
  await authorizeInProject(call, projectId);
  const file = readKeytab(draft.bytes);
  const compliance = await judge(call, file);
  const { organizationId } = call.caller;
  const id = randomUUIDv7();
  const { key, wrapped } = await seal.createDataKey(call, organizationId, id);
  const { principal, realm, kvno, encryptionTypes, entryCount, keytabHash } = file.contents;
  const [made] = await run<Partial<KeytabFields> & { hasProject: boolean }>(call.em, insertKeytab, [
    id,
    organizationId,
    projectId,
    draft.name,
    principal,
    realm,
    kvno,
    encryptionTypes,
    entryCount,
    keytabHash,
    compliance,
    draft.source,
    draft.expiresAt,
    draft.notes,
    call.now,
    wrapped,
    seal.seal(key, filePlace(organizationId, id, 1), file.bytes),
    call.caller.id,
    draft.changeReason,
  ]);
  if (projectId !== null && made?.hasProject !== true) throw referenceNotFound("project_id", "project");
  if (made?.id == null) throw fileTaken();
  const keytab = made as KeytabFields;
  call.about({ id: keytabId(id), name: draft.name, ...(projectId !== null && { projectId }) });
  note(call, file, { version: 1, principal, kvno });
  await linkFoundFiles(call.em, keytab);
  return keytab;
}

/** Replaces the file of a keytab of the caller's, in the call's transaction; the bytes that it has make no version. */
export async function replaceKeytabFile(
  call: Call,
  seal: Seal,
  id: string,
  bytes: Uint8Array,
  changeReason: string,
): Promise<KeytabFields> {
  const keytab = await lockKeytab(call, id);
  await replaceFile(call, seal, keytab, readKeytab(bytes), changeReason);
  return keytab;
}

/** The same for a keytab that is locked already. */
export async function replaceFile(
  call: Call,
  seal: Seal,
  keytab: Keytab,
  file: KeytabFile,
  changeReason: string,
): Promise<void> {
  if (file.contents.keytabHash === keytab.keytabHash) return;
  const compliance = await judge(call, file);
  const { principal: principalBefore, kvno: kvnoBefore } = keytab;
  const version = keytab.replaceFile(call.now, file.contents, compliance);
  await call.em.flush().catch((error: unknown) => {
    throw violates(error, "keytab_organization_id_keytab_hash_key") ? fileTaken() : error;
  });
  await insertVersion(call, seal, keytab, file, changeReason);
  await linkFoundFiles(call.em, keytab);
  const { principal, kvno } = keytab;
  note(call, file, {
    version,
    principal,
    kvno,
    ...(principal !== principalBefore && { principal_before: principalBefore }),
    ...(kvno < kvnoBefore && { kvno_before: kvnoBefore }),
  });
}

async function insertVersion(call: Call, seal: Seal, keytab: Keytab, file: KeytabFile, reason: string): Promise<void> {
  const { id, organizationId, version } = keytab;
  const [row] = await call.query<{ wrapped: Buffer }>("select wrapped from data_key where record_id = $1", [id]);
  if (row === undefined) throw new Error(`keytab ${id} has no key`);
  const key = await seal.dataKey(call, organizationId, id, row.wrapped);
  const { encryptionTypes, kvno, keytabHash } = file.contents;
  await run(
    call.em,
    `insert into keytab_version (keytab_id, version, organization_id, sealed, encryption_types, kvno, keytab_hash,
       changed_by, change_reason, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      id,
      version,
      organizationId,
      seal.seal(key, filePlace(organizationId, id, version), file.bytes),
      encryptionTypes,
      kvno,
      keytabHash,
      call.caller.id,
      reason,
      call.now,
    ],
  );
}

const fileTaken = () => duplicate("keytab_data", "is managed in this organization already");

/** For the audit log, beside what is noted there already. */
function note(call: Call, { warnings }: KeytabFile, details: Record<string, unknown>): void {
  const worthALook = warnings.length > 0 && { warnings };
  call.about({ details: { ...call.subject.details, ...details, ...worthALook } });
}
