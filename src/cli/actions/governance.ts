import { toJsonString } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type GovernanceReportRecord,
  GovernanceReportRecordSchema,
  GovernanceReportService,
  type GovernanceResult,
  GovernanceResultSchema,
} from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { note, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { readReportFile } from "../report-file.ts";
import { openSession } from "../session.ts";

/** Stores a report and shows what it finds. */
export async function importFile(file: string, options: Json): Promise<void> {
  const request = await readReportFile(file);
  show(await openSession()(GovernanceReportService).importGovernanceReport(request), options);
}

export async function status(id: string | undefined, options: Json): Promise<void> {
  show(await find(openSession(), id), options);
}

export async function evaluate(given: string | undefined, options: Json): Promise<void> {
  const api = openSession();
  const id = given ?? (await find(api, undefined)).id;
  show(await api(GovernanceReportService).evaluateGovernanceReport({ id }), options);
}

export async function list(options: Json): Promise<void> {
  const service = openSession()(GovernanceReportService);
  printRecords(
    GovernanceReportRecordSchema,
    await allPages((page) => service.listGovernanceReports(page)),
    [
      ["IMPORTED", ({ importedAt }) => timeText(importedAt)],
      ["CURRENT", ({ isCurrent }) => (isCurrent ? "yes" : "")],
      ["STATUS", ({ evaluation }) => evaluation?.status ?? ""],
      ["RULES", ({ evaluation }) => String(evaluation?.summary?.rules ?? 0)],
      ["FAILED", ({ evaluation }) => String(evaluation?.summary?.failed ?? 0)],
      ["EVALUATED", ({ evaluation }) => timeText(evaluation?.evaluatedAt)],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function remove(id: string, { yes }: { readonly yes?: boolean }): Promise<void> {
  if (!yes && !(await askConsent(`Remove report ${id}?`, "agree with --yes"))) return note("nothing was removed");
  await openSession()(GovernanceReportService).deleteGovernanceReport({ id });
  note(`removed ${id}`);
}

/** The current report unless one is named. */
function find(api: Api, id: string | undefined): Promise<GovernanceReportRecord> {
  const service = api(GovernanceReportService);
  return id === undefined ? service.getCurrentGovernanceReport({}) : service.getGovernanceReport({ id });
}

/** The rules as a table, and beneath it who violates them. */
function show(record: GovernanceReportRecord, options: Json): void {
  if (options.json) return printRestRecord(GovernanceReportRecordSchema, record);
  const { id, isCurrent, evaluation } = record;
  const { rules = 0, passed = 0, failed = 0, notApplicable = 0, notEvaluated = 0 } = evaluation?.summary ?? {};
  say(`${evaluation?.status ?? "not evaluated"} at ${timeText(evaluation?.evaluatedAt)}`);
  say(`report ${id}${isCurrent ? ", the current one" : ""}`);
  say(
    `${rules} rules: ${passed} passed, ${failed} failed, ${notApplicable} not applicable, ${notEvaluated} not evaluated`,
  );
  const results = evaluation?.results ?? [];
  if (results.length === 0) return;
  say("");
  printRecords(
    GovernanceResultSchema,
    results,
    [
      ["RULE", ({ rule }) => rule],
      ["REQUIRED", requiredText],
      ["STATUS", ({ status }) => status],
      ["CHECKED", ({ checked }) => String(checked)],
      ["VIOLATIONS", ({ violationCount }) => String(violationCount)],
      ["MESSAGE", ({ message }) => message],
    ],
    options,
  );
  for (const result of results) showViolations(result);
}

function showViolations({ rule, violations, violationCount }: GovernanceResult): void {
  if (violations.length === 0) return;
  say("");
  say(`${rule}:`);
  for (const { resourceType, resourceId, name, actual } of violations) {
    say(`  ${resourceType} ${name}${resourceId === "" ? "" : ` (${resourceId})`}: ${actual}`);
  }
  if (violationCount > violations.length) say(`  and ${violationCount - violations.length} more`);
}

const requiredText = ({ required }: GovernanceResult): string =>
  required === undefined ? "" : toJsonString(ValueSchema, required);
