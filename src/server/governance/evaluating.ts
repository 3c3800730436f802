import type { JsonObject } from "@bufbuild/protobuf";
import type * as pb from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import { FairQueue } from "../fair-queue.ts";
import type { Call } from "../wire/call.ts";
import { checkSize } from "../wire/free-json.ts";
import type { Preparation } from "../wire/preparing.ts";
import { evaluate } from "./evaluation.ts";
import type { Facts } from "./facts.ts";
import { checkPatterns } from "./patterns.ts";
import type { EvaluationJson, ReportJson } from "./report-json.ts";
import { findReport, reportOf } from "./report-record.ts";

const mostBytes = 65_536;

/** A report, and what was found of it. */
export interface Evaluated {
  readonly report: ReportJson;
  readonly evaluation: EvaluationJson;
}

/**
 * What the methods wait for that evaluate reports. Names are matched on this processor for up to seconds, for which no
 * transaction stays open, and one report at a time, so that other calls go on.
 */
export function evaluating(facts: Facts): Readonly<Record<string, Preparation>> {
  const queue = new FairQueue("too many reports are being evaluated");
  const evaluated = (call: Call, report: ReportJson, signal: AbortSignal): Promise<Evaluated> => {
    const { organizationId } = call.caller;
    return queue.run(organizationId, signal, async () => ({
      report,
      evaluation: await evaluate(call, organizationId, report, facts),
    }));
  };
  return {
    async importGovernanceReport(request: pb.ImportGovernanceReportRequest, call, signal) {
      const report = reportOf(request);
      checkSize(report as JsonObject, "body", mostBytes);
      checkPatterns(report);
      return evaluated(call, report, signal);
    },
    async evaluateGovernanceReport({ id }: pb.EvaluateGovernanceReportRequest, call, signal) {
      const { report } = await findReport(call, id);
      return evaluated(call, report, signal);
    },
  };
}
