import type { ReportedKeytab } from "../../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { canonicalCipher } from "../../standards/cipher-policy.ts";
import { findingsOfFile } from "../../standards/keytab-findings.ts";
import { run } from "../db/database.ts";
import type { Call } from "../wire/call.ts";
import { fileKey } from "./discovered-keytab.ts";

/** How many files a report tells something new of. */
export interface Stored {
  /** Not known before. */
  readonly discovered: number;
  /** With other bytes than before. */
  readonly changed: number;
  /** Stale until now. */
  readonly returned: number;
  /** Newly the file of a managed keytab. */
  readonly linked: number;
}

/** SQL for when an id of version 7 was made, in milliseconds since 1970; null for one of another version. */
const madeAt = (id: string) => `case when substr(${id}::uuid::text, 15, 1) = '7'
  then ('x' || left(replace(${id}::uuid::text, '-', ''), 12))::bit(48)::bigint end`;

/** The longest that a report is under way. */
const longestReportMs = 15 * 60_000;

/**
 * SQL for whether a scan that began after the one in the parameter has dealt with row `d`: what this one says of it came
 * late, and is no longer so. Ids of version 7 hold when a scan began. A longer lead comes from a clock that was set back,
 * and means nothing.
 */
export const dealtWithLater = (scanId: string) =>
  `coalesce(${madeAt("d.scan_id")} - ${madeAt(scanId)} between 1 and ${longestReportMs}, false)`;

/**
 * All files of a report in one statement. The rows are locked in the order of their paths, as everywhere. Where nothing
 * is new, no column of an index changes, and the row stays in its page. What the statement reads beside what it writes is
 * the table as it was before; each row by its id alone, or PostgreSQL would try another index while the table is new.
 */
const upsert = `with stored as (
    insert into discovered_keytab as d (organization_id, agent_id, scan_id, file_path, root, keytab_hash, principal, realm,
      kvno, encryption_types, file_permissions, file_owner, findings, managed_keytab_id)
    select $1, $2, $3, r.*, k.id
    from json_to_recordset($4) as r (file_path text, root text, keytab_hash text, principal text, realm text, kvno bigint,
      encryption_types text[], file_permissions text, file_owner text, findings text[])
    left join keytab k on k.organization_id = $1 and k.keytab_hash = r.keytab_hash and k.deleted_at is null
    order by r.file_path
    on conflict (${fileKey}) do update set scan_id = excluded.scan_id, root = excluded.root,
      keytab_hash = excluded.keytab_hash, principal = excluded.principal, realm = excluded.realm, kvno = excluded.kvno,
      encryption_types = excluded.encryption_types, file_permissions = excluded.file_permissions,
      file_owner = excluded.file_owner, findings = excluded.findings,
      managed_keytab_id = coalesce(excluded.managed_keytab_id, d.managed_keytab_id),
      ignored_at = case when excluded.managed_keytab_id is null then d.ignored_at end,
      ignored_reason = case when excluded.managed_keytab_id is null then d.ignored_reason end,
      stale = false, last_seen_at = now()
    where d.organization_id = $1 and not ${dealtWithLater("$3")}
    returning d.id, d.keytab_hash, d.managed_keytab_id)
  select count(*) filter (where old.id is null)::int as discovered,
    count(*) filter (where old.keytab_hash <> stored.keytab_hash)::int as changed,
    count(*) filter (where old.stale)::int as returned,
    count(*) filter (where old.managed_keytab_id is distinct from stored.managed_keytab_id)::int as linked
  from stored left join lateral (select * from discovered_keytab where id = stored.id offset 0) old on true`;

/**
 * Keeps what an agent of the caller's organization reports of files, each path once. A file whose bytes are those of a
 * managed keytab is linked to it; another one stays with the keytab it had, from which it has drifted.
 */
export async function storeReported(
  call: Call,
  agentId: string,
  scanId: string,
  reported: readonly ReportedKeytab[],
): Promise<Stored> {
  if (reported.length === 0) return { discovered: 0, changed: 0, returned: 0, linked: 0 };
  const rows = JSON.stringify(reported.map(rowOf));
  const [stored] = await run<Stored>(call.em, upsert, [call.caller.organizationId, agentId, scanId, rows]);
  return stored as Stored;
}

const rowOf = (file: ReportedKeytab) => ({
  file_path: file.filePath,
  root: file.root,
  keytab_hash: file.keytabHash,
  principal: file.principal,
  realm: file.realm,
  kvno: Math.max(...file.kvnos),
  encryption_types: [...new Set(file.encryptionTypes.map(canonicalCipher))],
  file_permissions: file.filePermissions,
  file_owner: file.fileOwner,
  findings: findingsOfFile(file),
});
