import { timestampOf } from "../db/timestamp.ts";
import { isKvnoBehind, isSharedKey } from "../keytabs/findings.ts";
import { keytabId } from "../keytabs/keytab-record.ts";

const managing = `from keytab k
  where k.id = d.managed_keytab_id and k.organization_id = d.organization_id and k.deleted_at is null`;

/** SQL for whether a keytab that is not deleted manages the file of table discovered_keytab `d`. */
export const isManaged = `exists (select ${managing})`;

/** SQL for whether that keytab has other bytes; of equalities alone, so that a hash answers it for many files. */
export const isDrifted = `(${isManaged} and not exists (select ${managing} and k.keytab_hash = d.keytab_hash))`;

/** SQL for the state of the file (gaps 7.1). */
export const state = `case when d.stale then 'stale' when ${isManaged} then 'imported'
  when d.ignored_at is not null then 'ignored' else 'discovered' end`;

/** What follows from the file alone is kept; the others, and only of files that are there, are those of the moment. */
const findings = `d.findings || case when not d.stale and ${isSharedKey("d")} then '{shared_key}'::text[] end
  || case when not d.stale and ${isKvnoBehind("d")} then '{kvno_behind}'::text[] end`;

/** What answers are made of: a row of `selectFields`. */
export interface DiscoveredFields {
  readonly id: string;
  readonly organizationId: string;
  readonly agentId: string;
  readonly hostname: string;
  readonly filePath: string;
  readonly principal: string;
  readonly realm: string;
  readonly kvno: number;
  readonly encryptionTypes: string[];
  readonly filePermissions: string;
  readonly fileOwner: string;
  readonly keytabHash: string;
  /** The UUID of a keytab that is not deleted. */
  readonly managedKeytabId: string | null;
  readonly drifted: boolean;
  readonly state: "discovered" | "imported" | "ignored" | "stale";
  readonly ignoredReason: string | null;
  readonly discoveredAt: string;
  readonly lastSeenAt: string;
  readonly findings: string[];
}

/** Columns of table discovered_keytab `d` as DiscoveredFields. */
export const selectFields = `d.id, d.organization_id as "organizationId", d.agent_id as "agentId",
  (select a.hostname from agent a where a.id = d.agent_id and a.organization_id = d.organization_id) as hostname,
  d.file_path as "filePath", d.principal, d.realm, d.kvno::float8 as kvno, d.encryption_types as "encryptionTypes",
  d.file_permissions as "filePermissions", d.file_owner as "fileOwner", d.keytab_hash as "keytabHash",
  (select k.id ${managing}) as "managedKeytabId", ${isDrifted} as drifted, ${state} as state,
  d.ignored_reason as "ignoredReason", d.discovered_at as "discoveredAt", d.last_seen_at as "lastSeenAt",
  ${findings} as findings`;

/** The record of a file (gaps 7.1), of which so many hosts hold the bytes. */
export const record = (fields: DiscoveredFields, instances: number) => ({
  id: fields.id,
  organizationId: fields.organizationId,
  agentId: fields.agentId,
  hostname: fields.hostname,
  filePath: fields.filePath,
  principal: fields.principal,
  realm: fields.realm,
  kvno: fields.kvno,
  encryptionTypes: fields.encryptionTypes,
  filePermissions: fields.filePermissions,
  fileOwner: fields.fileOwner,
  keytabHash: fields.keytabHash,
  isManaged: fields.managedKeytabId !== null,
  managedKeytabId: fields.managedKeytabId === null ? undefined : keytabId(fields.managedKeytabId),
  state: fields.state,
  discoveredAt: timestampOf(fields.discoveredAt),
  lastSeenAt: timestampOf(fields.lastSeenAt),
  drifted: fields.drifted,
  ignoredReason: fields.ignoredReason ?? undefined,
  instances,
  findings: fields.findings,
});
