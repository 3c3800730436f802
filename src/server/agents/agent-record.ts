import type { MessageInitShape } from "@bufbuild/protobuf";
import type * as pb from "../../../gen/ts/holdfast/agents/v1/agent_service_pb.ts";
import { timestampOf } from "../db/timestamp.ts";

/** SQL for the status of the agent in `a`: online, offline (no heartbeat for 2 minutes) or disabled (G-7.3). */
export const agentStatus = `case when a.disabled_at is not null then 'disabled'
  when a.last_heartbeat > now() - interval '2 minutes' then 'online' else 'offline' end`;

/** The columns of an AgentRow, of the agent in `a`. */
export const agentColumns = `a.*, ${agentStatus} as status,
  (select count(*)::int from discovered_keytab d where d.agent_id = a.id and not d.stale) as discovered_count`;

export interface AgentRow {
  readonly id: string;
  readonly hostname: string;
  readonly status: string;
  readonly version: string;
  readonly os: string;
  readonly last_heartbeat: string | null;
  readonly last_scan_at: string | null;
  readonly discovered_count: number;
  readonly created_at: string;
  readonly scan_errors: { readonly path: string; readonly reason: string }[];
}

/** What is told of an agent. */
export const answerAgent = (row: AgentRow): MessageInitShape<typeof pb.AgentSchema> => ({
  id: row.id,
  hostname: row.hostname,
  status: row.status,
  version: row.version,
  os: row.os,
  lastHeartbeat: timestampOf(row.last_heartbeat),
  lastScanAt: timestampOf(row.last_scan_at),
  discoveredCount: row.discovered_count,
  createdAt: timestampOf(row.created_at),
  scanErrors: row.scan_errors,
});
