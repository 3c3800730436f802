import { existsSync } from "node:fs";
import {
  type ReportedKeytab,
  ReportedKeytabSchema,
} from "../../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { reportedKeytab } from "../../agent/report-parts.ts";
import { placeOf } from "../../agent/scan/place.ts";
import { scanHost } from "../../agent/scan/scan.ts";
import { restJson } from "../../client/rest-json.ts";
import { findingsOfFile } from "../../standards/keytab-findings.ts";
import type { Json } from "../commands/options.ts";
import { note, printJson, printRecords } from "../output.ts";

export interface ScanCommandOptions extends Json {
  readonly root?: string[];
  readonly defaultPlaces: boolean;
  readonly otherFileSystems?: boolean;
}

/** Prints what an agent would report of this host, without a server. */
export async function scan({ root: roots = [], json, ...options }: ScanCommandOptions): Promise<void> {
  const { defaultPlaces, otherFileSystems = false } = options;
  const found = await scanHost({ roots, defaultPlaces, otherFileSystems, environment: process.env });
  const keytabs = found.keytabs.map(reportedKeytab);
  if (json) printJson({ keytabs: keytabs.map(jsonOf), roots: found.roots, errors: found.errors });
  else printTable(keytabs);
  for (const { path, reason } of found.errors) note(`${path}: ${reason}`);
  for (const root of roots) if (!existsSync(placeOf(root).base)) note(`${root}: there is nothing`);
}

const jsonOf = (keytab: ReportedKeytab) => ({
  ...restJson(ReportedKeytabSchema, keytab),
  findings: findingsOfFile(keytab),
});

const printTable = (keytabs: readonly ReportedKeytab[]) =>
  printRecords(
    ReportedKeytabSchema,
    keytabs,
    [
      ["FILE", ({ filePath }) => filePath],
      ["PRINCIPAL", ({ principal }) => principal],
      ["KVNO", ({ kvnos }) => kvnos.join(", ")],
      ["TYPES", ({ encryptionTypes }) => encryptionTypes.join(", ")],
      ["MODE", ({ filePermissions }) => filePermissions],
      ["OWNER", ({ fileOwner }) => fileOwner],
      ["FINDINGS", (keytab) => findingsOfFile(keytab).join(", ")],
    ],
    {},
  );
