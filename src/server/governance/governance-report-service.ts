import { randomUUIDv7 } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { type Call, callOf } from "../wire/call.ts";
import type { Evaluated } from "./evaluating.ts";
import {
  answerReport,
  findCurrent,
  findReport,
  found,
  keepEvaluation,
  listedColumns,
  type ReportRow,
  reportColumns,
} from "./report-record.ts";

/** The methods of governance_report_service.proto. */
export class GovernanceReportService implements ServiceImpl<typeof pb.GovernanceReportService> {
  async importGovernanceReport(_: pb.ImportGovernanceReportRequest, context: HandlerContext) {
    const call = callOf(context);
    const evaluated = (await call.prepared) as Evaluated;
    const kept = await keepReport(call, evaluated);
    call.about({ id: kept.id, details: { status: evaluated.evaluation.status } });
    return answerReport(kept);
  }

  async listGovernanceReports({ page, perPage }: pb.ListGovernanceReportsRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = new Conditions().add("r.organization_id = ?", call.caller.organizationId);
    const from = "governance_report r";
    const select = { columns: listedColumns, from, where, orderBy: "r.imported_at desc, r.id desc" };
    const { rows, pagination } = await fetchPage<ReportRow>(call, select, { page, perPage });
    return { data: rows.map(answerReport), pagination };
  }

  async getGovernanceReport({ id }: pb.GetGovernanceReportRequest, context: HandlerContext) {
    return answerReport(await findReport(callOf(context), id));
  }

  async getCurrentGovernanceReport(_: pb.GetCurrentGovernanceReportRequest, context: HandlerContext) {
    const call = callOf(context);
    return answerReport(found(await findCurrent(call, call.caller.organizationId)));
  }

  async evaluateGovernanceReport({ id }: pb.EvaluateGovernanceReportRequest, context: HandlerContext) {
    const call = callOf(context);
    const { evaluation } = (await call.prepared) as Evaluated;
    const { row, from } = found(await keepEvaluation(call, call.caller.organizationId, id, evaluation));
    call.about({ details: { from, to: row.evaluation.status } });
    return answerReport(row);
  }

  async deleteGovernanceReport({ id }: pb.DeleteGovernanceReportRequest, context: HandlerContext) {
    const call = callOf(context);
    const [deleted] = await run(
      call.em,
      "delete from governance_report where id = $1 and organization_id = $2 returning 1",
      [id, call.caller.organizationId],
    );
    found(deleted);
    call.about({ id });
    return {};
  }
}

/** As the newest one. Those who import at the same time take turns from here to their commits, so that there is an order. */
async function keepReport(call: Call, { report, evaluation }: Evaluated): Promise<ReportRow> {
  const { id: importedBy, organizationId } = call.caller;
  await run(call.em, "select pg_advisory_xact_lock(hashtextextended($1, 0))", [`governance-report:${organizationId}`]);
  const [row] = await run<ReportRow>(
    call.em,
    `insert into governance_report as r (id, organization_id, report, evaluation, imported_by, imported_at)
     select $1, $2, $3::jsonb, $4::jsonb, $5, greatest(clock_timestamp(),
       (select max(imported_at) + interval '1 millisecond' from governance_report where organization_id = $2))
     returning ${reportColumns}`,
    [randomUUIDv7(), organizationId, JSON.stringify(report), JSON.stringify(evaluation), importedBy],
  );
  // A statement does not see the row that it adds.
  return { ...(row as ReportRow), isCurrent: true };
}
