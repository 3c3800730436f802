import { run } from "../db/database.ts";
import { notFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { type DiscoveredFields, record, selectFields } from "./discovered-record.ts";

/** A file that an agent of the caller's organization reported. */
export async function findDiscovered(call: Call, id: string): Promise<DiscoveredFields> {
  const [file] = await call.query<DiscoveredFields>(
    `select ${selectFields} from discovered_keytab d where d.id = $1 and d.organization_id = $2`,
    [id, call.caller.organizationId],
  );
  if (file === undefined) throw notFound("discovered keytab");
  return file;
}

/** Locked before it is read: what a statement reads beside a row that it waits for may be old. */
export async function lockDiscovered(call: Call, id: string): Promise<DiscoveredFields> {
  const own = [id, call.caller.organizationId];
  await run(call.em, "select 1 from discovered_keytab where id = $1 and organization_id = $2 for no key update", own);
  return findDiscovered(call, id);
}

/** The records of files. Counted once for each content, however many of the files have the same. */
export async function records(call: Call, files: readonly DiscoveredFields[]) {
  const rows = await call.query<{ keytab_hash: string; instances: number }>(
    `select d.keytab_hash, count(distinct d.agent_id)::int as instances
     from discovered_keytab d, (select $2::text[] as hashes offset 0) as asked
     where d.organization_id = $1 and d.keytab_hash = any(asked.hashes) and not d.stale group by d.keytab_hash`,
    [call.caller.organizationId, [...new Set(files.map(({ keytabHash }) => keytabHash))]],
  );
  const instances = new Map(rows.map((row) => [row.keytab_hash, row.instances]));
  return files.map((file) => record(file, instances.get(file.keytabHash) ?? 0));
}
