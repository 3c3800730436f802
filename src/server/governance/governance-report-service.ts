import { randomUUIDv7 } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { notFound } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { checkSize } from "../wire/free-json.ts";
import { evaluate } from "./evaluation.ts";
import type { Facts } from "./facts.ts";
import { checkPatterns } from "./patterns.ts";
import type { EvaluationJson, ReportJson } from "./report-json.ts";
import {
  answerReport,
  findCurrent,
  keepEvaluation,
  listedColumns,
  type ReportRow,
  reportColumns,
  reportOf,
} from "./report-record.ts";

const mostBytes = 65_536;

/** The methods of governance_report_service.proto. */
export class GovernanceReportService implements ServiceImpl<typeof pb.GovernanceReportService> {
  readonly #facts: Facts;

  constructor(facts: Facts) {
    this.#facts = facts;
  }

  async importGovernanceReport(request: pb.ImportGovernanceReportRequest, context: HandlerContext) {
    const call = callOf(context);
    const report = reportOf(request);
    checkSize(report as JsonObject, "body", mostBytes);
    checkPatterns(report);
    const evaluation = await evaluate(call, call.caller.organizationId, report, this.#facts);
    const kept = await keepReport(call, report, evaluation);
    call.about({ id: kept.id, details: { status: evaluation.status } });
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
    const before = await findReport(call, id);
    const evaluation = await evaluate(call, before.organizationId, before.report, this.#facts);
    const kept = found(await keepEvaluation(call, before, evaluation));
    call.about({ details: { from: before.evaluation.status, to: evaluation.status } });
    return answerReport(kept);
  }

  async deleteGovernanceReport({ id }: pb.DeleteGovernanceReportRequest, context: HandlerContext) {
    const call = callOf(context);
    const [deleted] = await run(
      call.em,
      "delete from governance_report where id = $1 and organization_id = $2 returning 1",
      [id, call.caller.organizationId],
    );
    if (deleted === undefined) throw notFound("governance report");
    call.about({ id });
    return {};
  }
}

async function findReport(call: Call, id: string): Promise<ReportRow> {
  const [row] = await call.query<ReportRow>(
    `select ${reportColumns} from governance_report r where r.id = $1 and r.organization_id = $2`,
    [id, call.caller.organizationId],
  );
  call.about({ id });
  return found(row);
}

function found(row: ReportRow | undefined): ReportRow {
  if (row === undefined) throw notFound("governance report");
  return row;
}

/** As the newest one. Those who import at the same time take turns from here to their commits, so that there is an order. */
async function keepReport(call: Call, report: ReportJson, evaluation: EvaluationJson): Promise<ReportRow> {
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
