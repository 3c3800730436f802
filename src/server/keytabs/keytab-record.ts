import { millis } from "../db/columns.ts";
import { timestampOf } from "../db/timestamp.ts";

type Time = Date | number;

/** What lists show of a keytab. */
export interface KeytabListFields {
  /** The bare UUID. */
  readonly id: string;
  readonly name: string;
  readonly principal: string;
  readonly realm: string;
  readonly kvno: number;
  readonly encryptionTypes: string[];
  /** As it is now, whether the sweep has come by or not. */
  readonly lifecycle: string;
  readonly cipherCompliance: string;
  readonly source: string;
  readonly version: number;
  readonly entryCount: number;
  readonly expiresAt?: Time | null | undefined;
  readonly createdAt: Time;
  readonly updatedAt: Time;
}

/** What answers are made of: an entity has it, and so does a row of `selectFields`. */
export interface KeytabFields extends KeytabListFields {
  readonly organizationId: string;
  readonly projectId?: string | null | undefined;
  readonly keytabHash: string;
  readonly notes: string;
}

/** A keytab counts as expired from that instant on; one that is disabled stays disabled (G-6.4). */
const isOver = "coalesce(k.expires_at <= now(), false)";

/** SQL for the status of table keytab `k` as it is now. */
export const lifecycle = `case when k.status = 'active' and ${isOver} then 'expired' else k.status end`;

/** Columns of table keytab `k` as far as lists show them. */
export const selectListFields = `k.id, k.name, k.principal, k.realm, k.kvno::float8 as kvno,
  k.encryption_types as "encryptionTypes", ${lifecycle} as lifecycle, k.cipher_compliance as "cipherCompliance", k.source,
  k.version, k.entry_count as "entryCount", ${millis("k.expires_at")} as "expiresAt",
  ${millis("k.created_at")} as "createdAt", ${millis("k.updated_at")} as "updatedAt"`;

/** Columns of table keytab `k` as KeytabFields. */
export const selectFields = `${selectListFields}, k.organization_id as "organizationId", k.project_id as "projectId",
  k.keytab_hash as "keytabHash", k.notes`;

const prefix = "kt_";

/** The id of a keytab as it is shown. */
export const keytabId = (uuid: string): string => prefix + uuid;

/** The UUID of a keytab that a request names, with or without kt_ and in any case. */
export const uuidOf = (id: string): string => id.toLowerCase().replace(prefix, "");

/** A keytab in a list (spec "Keytab"). */
export const listItem = (fields: KeytabListFields) => ({
  id: keytabId(fields.id),
  name: fields.name,
  principal: fields.principal,
  realm: fields.realm,
  kvno: fields.kvno,
  encryptionTypes: fields.encryptionTypes,
  status: fields.lifecycle,
  cipherCompliance: fields.cipherCompliance,
  source: fields.source,
  version: fields.version,
  entryCount: fields.entryCount,
  expiresAt: timestampOf(fields.expiresAt ?? null),
  createdAt: timestampOf(fields.createdAt),
  updatedAt: timestampOf(fields.updatedAt),
});

/** The record of a keytab: never the file. Where the file is kept has one answer so far (G-6.8). */
export const record = (fields: KeytabFields) => ({
  ...listItem(fields),
  organizationId: fields.organizationId,
  projectId: fields.projectId ?? undefined,
  storageMode: "full",
  offloadStatus: "local",
  keytabHash: fields.keytabHash,
  notes: fields.notes,
});
