import type { JsonObject } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/audit/v1/audit_service_pb.ts";
import { millis } from "../db/columns.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { callOf } from "../wire/call.ts";

interface Row {
  readonly id: string;
  readonly occurred_at: number;
  readonly action: string;
  readonly outcome: string;
  readonly actor_type: string;
  readonly actor_id: string | null;
  readonly actor_name: string | null;
  readonly resource_type: string;
  readonly resource_id: string | null;
  readonly resource_name: string | null;
  readonly project_id: string | null;
  readonly reason: string | null;
  readonly request_id: string | null;
  readonly source_ip: string | null;
  readonly user_agent: string | null;
  readonly details: string;
}

const columns = `id, ${millis("a.occurred_at")} as occurred_at, action, outcome, actor_type, actor_id, actor_name, resource_type,
  resource_id, resource_name, project_id, reason, request_id, source_ip, user_agent, details`;

/** The methods of audit_service.proto. */
export class AuditService implements ServiceImpl<typeof pb.AuditService> {
  async listAuditEvents(request: pb.ListAuditEventsRequest, context: HandlerContext) {
    const call = callOf(context);
    const { action = "", from, to, page, perPage } = request;
    const where = new Conditions()
      .add("a.organization_id = ?", call.caller.organizationId)
      .add("a.project_id = any(?)", call.visibleProjects)
      .add("a.actor_id = ?", request.actorId)
      .add("a.resource_type = ?", request.resourceType)
      .add("a.resource_id = ?", request.resourceId)
      .add("a.project_id = ?", request.projectId)
      .add("a.outcome = ?", request.outcome)
      .add("a.request_id = ?", request.requestId)
      .add("a.occurred_at >= ?", from && timestampDate(from))
      .add("a.occurred_at < ?", to && timestampDate(to))
      .contains("a.resource_name", request.search);
    if (action.endsWith(".*")) where.add("starts_with(a.action, ?)", action.slice(0, -1));
    else if (action !== "") where.add("a.action = ?", action);
    const select = { columns, from: "audit_event a", where, orderBy: "a.occurred_at desc, a.id desc" };
    const { rows, pagination } = await fetchPage<Row>(call, select, { page, perPage });
    return { data: rows.map(answer), pagination };
  }
}

const answer = (row: Row) => ({
  id: row.id,
  occurredAt: timestampFromMs(Math.round(row.occurred_at)),
  action: row.action,
  outcome: row.outcome,
  actor: { type: row.actor_type, id: row.actor_id ?? undefined, name: row.actor_name ?? undefined },
  resource: { type: row.resource_type, id: row.resource_id ?? undefined, name: row.resource_name ?? undefined },
  projectId: row.project_id ?? undefined,
  reason: row.reason ?? undefined,
  requestId: row.request_id ?? undefined,
  sourceIp: row.source_ip ?? undefined,
  userAgent: row.user_agent ?? undefined,
  details: JSON.parse(row.details) as JsonObject,
});
