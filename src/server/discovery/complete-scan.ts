import type { ScanError } from "../../../gen/ts/holdfast/agents/v1/agent_service_pb.ts";
import { run } from "../db/database.ts";
import type { Call } from "../wire/call.ts";
import { dealtWithLater } from "./store-reported.ts";

/** A scan of an agent, of which a part has arrived. */
export interface Scan {
  readonly agentId: string;
  readonly scanId: string;
  /** What could not be read. */
  readonly errors: readonly ScanError[];
}

/** As many are kept of an agent's last complete scan. */
const mostErrorsKept = 100;

/** SQL for whether one of the paths in the parameter satisfies the condition, which calls it `path`. */
const anyOf = (paths: string, condition: string) =>
  `exists (select 1 from (select ${paths}::text[] as paths offset 0) as given, unnest(given.paths) as path where ${condition})`;

/** SQL for whether a column is `path` or below it. */
const isWithin = (column: string) => `(${column} = path or starts_with(${column}, rtrim(path, '/') || '/'))`;

const ofScan = `d.organization_id = $1 and d.agent_id = $2 and not d.stale and d.scan_id <> $3
  and not ${dealtWithLater("$3")}`;

const pardon = `update discovered_keytab d set scan_id = $3
  where ${ofScan} and ${anyOf("$4", `(${isWithin("d.file_path")} or ${isWithin("d.root")})`)}`;

/**
 * Files that a scan could not look for count as dealt with by it, since nobody knows whether they are still there: those
 * at and below what it could not read, and those that it finds by way of that. In each part of a scan, so that the last
 * one knows of all.
 */
export async function pardonUnreadable(call: Call, { agentId, scanId, errors }: Scan): Promise<void> {
  if (errors.length === 0) return;
  const paths = errors.map(({ path }) => path);
  await run(call.em, pardon, [call.caller.organizationId, agentId, scanId, paths]);
}

/** A place that the scan began at may be a pattern, or a link to where the files are: then its name says it. */
const markStale = `with gone as (
    update discovered_keytab d set stale = true, scan_id = $3
    where ${ofScan} and ${anyOf("$4", `(d.root = path or ${isWithin("d.file_path")})`)}
    returning 1),
  scanned as (update agent set last_scan_at = now(), scan_errors = $5 where id = $2 and organization_id = $1)
  select count(*)::int as stale from gone`;

/**
 * Ends a scan that went through all of `roots`: what was once found there and is not dealt with becomes stale. Answers
 * how many that are.
 */
export async function completeScan(call: Call, scan: Scan, roots: readonly string[]): Promise<number> {
  const errors = scan.errors.slice(0, mostErrorsKept).map(({ path, reason }) => ({ path, reason }));
  const values = [call.caller.organizationId, scan.agentId, scan.scanId, roots, JSON.stringify(errors)];
  const [row] = await run<{ stale: number }>(call.em, markStale, values);
  return row?.stale ?? 0;
}
