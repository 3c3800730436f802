import { parseKeytab } from "../../standards/keytab.ts";
import { referenceNotFound } from "../errors.ts";
import type { Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";
import { authorizeFound } from "./find-keytab.ts";
import { type KeytabFields, uuidOf } from "./keytab-record.ts";
import { filePlace } from "./store-keytab.ts";

/** The file of a version, opened. */
interface OpenedFile {
  readonly bytes: Buffer;
  readonly hash: string;
}

interface Row extends Pick<KeytabFields, "id" | "name" | "projectId"> {
  readonly version: number | null;
  readonly sealed: Buffer;
  readonly hash: string;
  readonly wrapped: Buffer;
}

/** Opens the file of a version, the current one unless it is given, in whatever state the keytab is (G-6.11). */
export async function openFile(call: Call, seal: Seal, id: string, version: number | undefined): Promise<OpenedFile> {
  const { organizationId } = call.caller;
  const uuid = uuidOf(id);
  const [row] = await call.query<Row>(
    `select k.id, k.name, k.project_id as "projectId", v.version, v.sealed, v.keytab_hash as hash, d.wrapped
     from keytab k join data_key d on d.record_id = k.id
     left join keytab_version v on v.keytab_id = k.id and v.version = coalesce($3::int, k.version)
     where k.id = $1 and k.organization_id = $2 and k.deleted_at is null`,
    [uuid, organizationId, version ?? null],
  );
  const keytab = authorizeFound(call, row);
  if (keytab.version === null) throw referenceNotFound("version", "version");
  call.about({ details: { version: keytab.version } });
  const key = await seal.dataKey(call, organizationId, uuid, keytab.wrapped);
  const bytes = seal.open(key, filePlace(organizationId, uuid, keytab.version), keytab.sealed);
  return { bytes, hash: keytab.hash };
}

/** What file systems take for a name. */
const longestName = 255;
const extension = ".keytab";

/** The name to save a file under: its principal without realm (G-6.11). */
export function fileName(bytes: Uint8Array): string {
  const [{ components }] = parseKeytab(bytes).entries;
  const name = components.join("/").replaceAll(/[^A-Za-z0-9._-]/gu, "_");
  return name.slice(0, longestName - extension.length) + extension;
}

const pieceLength = 64 * 1024;

/** The bytes in pieces, so that a slow caller holds up no more than one of them. */
export function* piecesOf(bytes: Buffer) {
  for (let at = 0; at < bytes.length; at += pieceLength) yield bytes.subarray(at, at + pieceLength);
}
