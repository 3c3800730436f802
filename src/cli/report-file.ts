import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import {
  GovernanceReportSchema,
  type ImportGovernanceReportRequest,
  ImportGovernanceReportRequestSchema,
} from "../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import { type FieldFault, readClosed } from "../standards/closed-messages.ts";
import { structureFault } from "../standards/strict-json.ts";
import { readStandardInput } from "./ask.ts";
import { Failure, usage } from "./failure.ts";

/**
 * The report in a file, or on standard input for "-": by itself, or as the only property of an object. Throws a Failure
 * that names what does not belong there, by its path.
 */
export async function readReportFile(file: string): Promise<ImportGovernanceReportRequest> {
  const report = reportIn(file, file === "-" ? await readStandardInput() : await readNamed(file));
  const faults: FieldFault[] = [];
  readClosed(GovernanceReportSchema, report, "declared", faults);
  if (faults.length > 0) {
    const lines = faults.map(({ field, message }) => `${field} ${message}`);
    throw new Failure("invalid", `${file} is no governance report`, lines);
  }
  return create(ImportGovernanceReportRequestSchema, {
    report: fromJson(GovernanceReportSchema, report as JsonValue),
    // An empty list is told from none by its being mentioned.
    updateMask: { paths: mentioned(report).map((path) => `report.${path}`) },
  });
}

function reportIn(file: string, bytes: Buffer): Record<string, unknown> {
  if (!isUtf8(bytes)) throw usage(`${file} is not UTF-8`);
  const text = bytes.toString("utf8");
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw usage(`${file} holds no JSON`);
  }
  if (!isObject(json)) throw usage(`${file} must hold a JSON object`);
  const fault = structureFault(text);
  if (fault !== undefined) throw usage(`${file} ${fault}`);
  const { report, ...others } = json;
  return isObject(report) && Object.keys(others).length === 0 ? report : json;
}

/** Dotted paths of all values that are no objects themselves. */
const mentioned = (json: Record<string, unknown>): string[] =>
  Object.entries(json).flatMap(([name, value]) =>
    isObject(value) ? mentioned(value).map((path) => `${name}.${path}`) : [name],
  );

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function readNamed(file: string): Promise<Buffer> {
  return readFile(file).catch((error: NodeJS.ErrnoException) => {
    throw usage(`cannot read ${file} (${error.code})`);
  });
}
