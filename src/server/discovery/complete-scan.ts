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

/** SQL for the paths in the parameter, out of a subquery that is not flattened. */
const allOf = (paths: string, as: string) =>
  `(select ${as} from (select ${paths}::text[] as paths offset 0) as given, unnest(given.paths) as path)`;

/**
 * SQL for whether a column is one of the paths in the parameter or below one. Each of its ancestors is looked up in a hash
 * of them: to compare each file with each path would take a host with many of both longer than a statement may.
 */
const isWithinAny = (column: string, paths: string) => `exists (
    select from (select string_to_array(${column}, '/') as names) as whole,
      generate_series(1, cardinality(whole.names)) as depth
    where array_to_string(whole.names[1:depth], '/') in ${allOf(paths, "rtrim(path, '/')")})`;

const ofScan = `d.organization_id = $1 and d.agent_id = $2 and not d.stale and d.scan_id <> $3
  and not ${dealtWithLater("$3")}`;

const pardon = `update discovered_keytab d set scan_id = $3
  where ${ofScan} and (${isWithinAny("d.file_path", "$4")} or ${isWithinAny("d.root", "$4")})`;

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
    where ${ofScan} and (d.root in ${allOf("$4", "path")} or ${isWithinAny("d.file_path", "$4")})
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
