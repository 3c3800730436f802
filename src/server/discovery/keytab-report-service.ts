import { randomUUIDv7 } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { callingAgent } from "../agents/calling-agent.ts";
import type { KeytabRequests, UploadOutcome } from "../agents/keytab-requests.ts";
import { run } from "../db/database.ts";
import { invalid } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { completeScan, pardonUnreadable } from "./complete-scan.ts";
import { storeReported } from "./store-reported.ts";

/** The methods of keytab_report_service.proto. */
export class KeytabReportService implements ServiceImpl<typeof pb.KeytabReportService> {
  readonly #requests: KeytabRequests;

  constructor(requests: KeytabRequests) {
    this.#requests = requests;
  }

  async reportKeytabs(request: pb.ReportKeytabsRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id: agentId } = await callingAgent(call);
    const { scanId, keytabs, errors, complete, roots } = request;
    checkPaths(keytabs);
    await takeTurn(call, agentId);
    const scan = { agentId, scanId, errors };
    const stored = await storeReported(call, agentId, scanId, keytabs);
    await pardonUnreadable(call, scan);
    const counts = { ...stored, stale: complete ? await completeScan(call, scan, roots) : 0 };
    if (Object.values(counts).some((count) => count > 0)) {
      call.action = "agent.report";
      call.about({ details: counts });
    }
    return { discovered: counts.discovered, changed: counts.changed, stale: counts.stale };
  }

  async uploadKeytab({ requestId, outcome }: pb.UploadKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id: agentId } = await callingAgent(call);
    await this.#requests.answer(call, requestId, outcome as UploadOutcome);
    // A scan of its own: one that is under way may have read the file before it changed.
    if (outcome.case === "changed") await storeReported(call, agentId, randomUUIDv7(), [outcome.value]);
    return {};
  }
}

/** A row can be written once in a statement. */
function checkPaths(keytabs: readonly pb.ReportedKeytab[]): void {
  const seen = new Set<string>();
  const faults = keytabs.flatMap(({ filePath }, index) => {
    if (!seen.has(filePath)) {
      seen.add(filePath);
      return [];
    }
    return [{ field: `keytabs[${index}].file_path`, message: "is in this report already" }];
  });
  if (faults.length > 0) throw invalid(faults);
}

/** Reports of one agent follow each other: what one makes stale, another may be about to say that it saw. */
async function takeTurn(call: Call, agentId: string): Promise<void> {
  await run(call.em, "select pg_advisory_xact_lock(hashtextextended($1, 0))", [`holdfast:report:${agentId}`]);
}
