import { GovernanceReportService as reports } from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import type { Context } from "../context.ts";
import { evaluating } from "./evaluating.ts";
import { factsOf } from "./facts.ts";
import { GovernanceReport } from "./governance-report.ts";
import { GovernanceReportService } from "./governance-report-service.ts";
import { evaluationJob } from "./nightly-evaluation.ts";

export const governance: Context = {
  entities: [GovernanceReport],
  services: ({ config }) => [
    {
      descriptor: reports,
      implementation: new GovernanceReportService(),
      preparations: evaluating(factsOf(config)),
    },
  ],
  jobs: (core) => [evaluationJob(core, factsOf(core.config))],
};
