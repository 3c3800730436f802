import { fromJson, type JsonObject, type JsonValue, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import * as pb from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import type { Queries } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import type { EvaluationJson, ReportJson } from "./report-json.ts";

/** A report, as answers are made of it. */
export interface ReportRow {
  readonly id: string;
  readonly organizationId: string;
  readonly report: ReportJson;
  readonly evaluation: EvaluationJson;
  readonly importedBy: string;
  readonly importedAt: string;
  readonly isCurrent: boolean;
}

const columns = (evaluation: string) => `r.id, r.organization_id as "organizationId", r.report,
  ${evaluation} as evaluation, r.imported_by as "importedBy", r.imported_at as "importedAt",
  r.id = (select n.id from governance_report n where n.organization_id = r.organization_id
          order by n.imported_at desc, n.id desc limit 1) as "isCurrent"`;

/** Columns of table governance_report `r` as a ReportRow. */
export const reportColumns = columns("r.evaluation");

/** The same without the single violations, of which a page of reports would have too many. */
export const listedColumns = columns(`r.evaluation || jsonb_build_object('results',
  (select coalesce(jsonb_agg(e.result - 'violations' order by e.position), '[]')
   from jsonb_array_elements(r.evaluation -> 'results') with ordinality e(result, position)))`);

/** What was looked for. Throws RESOURCE_NOT_FOUND when there is none. */
export function found<Row>(row: Row | undefined): Row {
  if (row === undefined) throw notFound("governance report");
  return row;
}

/** A report of the caller's organization, which the call is about. Throws RESOURCE_NOT_FOUND. */
export async function findReport(call: Call, id: string): Promise<ReportRow> {
  call.about({ id });
  return found(await readReport(call, call.caller.organizationId, id));
}

async function readReport(queries: Queries, organizationId: string, id: string): Promise<ReportRow | undefined> {
  const [row] = await queries.query<ReportRow>(
    `select ${reportColumns} from governance_report r where r.id = $1 and r.organization_id = $2`,
    [id, organizationId],
  );
  return row;
}

/** The newest report of an organization, which is the current one. */
export async function findCurrent(queries: Queries, organizationId: string): Promise<ReportRow | undefined> {
  const [row] = await queries.query<ReportRow>(
    `select ${reportColumns} from governance_report r where r.organization_id = $1
     order by r.imported_at desc, r.id desc limit 1`,
    [organizationId],
  );
  return row;
}

/** What became of an evaluation. */
interface Kept {
  readonly row: ReportRow;
  /** The status before. */
  readonly from: EvaluationJson["status"];
}

/**
 * Keeps what was found of a report, unless somebody who looked later has kept theirs already. In a transaction. Answers
 * undefined when the report is gone.
 */
export async function keepEvaluation(
  queries: Queries,
  organizationId: string,
  id: string,
  evaluation: EvaluationJson,
): Promise<Kept | undefined> {
  const [before] = await queries.query<Pick<EvaluationJson, "evaluated_at" | "status">>(
    `select evaluation ->> 'status' as status, evaluation ->> 'evaluated_at' as evaluated_at
     from governance_report where id = $1 and organization_id = $2 for update`,
    [id, organizationId],
  );
  if (before === undefined) return undefined;
  if (before.evaluated_at <= evaluation.evaluated_at) {
    await queries.query("update governance_report set evaluation = $3::jsonb where id = $1 and organization_id = $2", [
      id,
      organizationId,
      JSON.stringify(evaluation),
    ]);
  }
  return { row: (await readReport(queries, organizationId, id)) as ReportRow, from: before.status };
}

/** What a request brings, exactly: a message does not tell an empty list from none, its mask does. */
export function reportOf({ report, updateMask }: pb.ImportGovernanceReportRequest): ReportJson {
  if (report === undefined) return {};
  const json = toJson(pb.GovernanceReportSchema, report, { useProtoFieldName: true }) as Record<string, JsonObject>;
  const mentioned = new Set(updateMask?.paths);
  for (const group of pb.GovernanceReportSchema.fields) {
    const given = json[group.name];
    for (const { name, fieldKind } of given === undefined ? [] : (group.message?.fields ?? [])) {
      if (fieldKind === "list" && mentioned.has(`report.${group.name}.${name}`)) (given as JsonObject)[name] ??= [];
    }
  }
  return json;
}

/** What is told of a report (gaps 14). */
export const answerReport = (row: ReportRow): MessageInitShape<typeof pb.GovernanceReportRecordSchema> => ({
  id: row.id,
  organizationId: row.organizationId,
  isCurrent: row.isCurrent,
  importedBy: row.importedBy,
  importedAt: timestampOf(row.importedAt),
  report: answerGroups(row.report),
  evaluation: fromJson(pb.GovernanceEvaluationSchema, row.evaluation as unknown as JsonValue),
});

/** Not read from JSON, since a message would have an empty list for each that is not there. */
function answerGroups(report: ReportJson): MessageInitShape<typeof pb.GovernanceReportSchema> {
  const groups = report as Readonly<Record<string, JsonObject | undefined>>;
  return Object.fromEntries(
    pb.GovernanceReportSchema.fields.flatMap(({ name, localName, message }) => {
      const given = groups[name];
      return given === undefined ? [] : [[localName, answerFields(given, message?.fields ?? [])]];
    }),
  );
}

const answerFields = (given: JsonObject, fields: readonly { readonly name: string; readonly localName: string }[]) =>
  Object.fromEntries(
    fields.flatMap(({ name, localName }) => (given[name] === undefined ? [] : [[localName, given[name]]])),
  );
