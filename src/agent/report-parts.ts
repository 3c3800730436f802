import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type ReportedKeytab,
  ReportedKeytabSchema,
  type ReportKeytabsRequestSchema,
} from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import type { FoundKeytab } from "./scan/keytab-file.ts";
import type { Scan } from "./scan/scan.ts";

type Part = MessageInitShape<typeof ReportKeytabsRequestSchema>;
type ScanError = Scan["errors"][number];

/** A part is far below what a server takes as one message, and is stored by a short transaction. */
const mostKeytabs = 200;
const mostBytes = 512 * 1024;
const mostErrors = 500;
const mostRoots = 1000;

/** What may be said of a file (keytab_report_service.proto): for more, the whole part would be refused. */
const longest = { path: 4096, principal: 8192, encryptionType: 64, owner: 255, reason: 1000 };
const mostNumbers = 1000;

/** What is said of a file; it holds no key bytes. */
export const reportedKeytab = (found: FoundKeytab): ReportedKeytab =>
  create(ReportedKeytabSchema, {
    filePath: found.filePath,
    root: found.root,
    keytabHash: found.hash,
    principal: found.principal,
    realm: found.realm,
    kvnos: [...found.kvnos],
    encryptionTypes: [...found.encryptionTypes],
    filePermissions: found.permissions,
    fileOwner: found.owner,
  });

/** What is reported of a scan, in parts, of which the last one is complete. */
export function reportParts(scanId: string, { keytabs, roots, errors }: Scan): Part[] {
  const [sayable, unsayable] = [keytabs.filter(isSayable), keytabs.filter((found) => !isSayable(found))];
  const unsaid = unsayable.map(({ filePath }) => ({
    path: filePath,
    reason: "there is more in it than can be reported",
  }));
  const parts: Part[] = [
    ...keytabParts(sayable.map(reportedKeytab)).map((part) => ({ scanId, keytabs: part })),
    ...errorParts([...errors, ...unsaid].map(shortened)).map((part) => ({ scanId, errors: part })),
  ];
  // A root that is left out only keeps what was found there from becoming stale.
  const last = { complete: true, roots: roots.slice(0, mostRoots) };
  return [...parts.slice(0, -1), { scanId, ...parts.at(-1), ...last }];
}

function isSayable({ filePath, root, principal, realm, kvnos, encryptionTypes, owner }: FoundKeytab): boolean {
  return (
    Math.max(filePath.length, root.length) <= longest.path &&
    Math.max(principal.length, realm.length) <= longest.principal &&
    owner.length <= longest.owner &&
    Math.max(kvnos.length, encryptionTypes.length) <= mostNumbers &&
    encryptionTypes.every((name) => name.length <= longest.encryptionType)
  );
}

function keytabParts(keytabs: readonly ReportedKeytab[]): ReportedKeytab[][] {
  const parts: ReportedKeytab[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const keytab of keytabs) {
    const size = toBinary(ReportedKeytabSchema, keytab).length;
    if (bytes + size > mostBytes || parts.at(-1)?.length === mostKeytabs) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)?.push(keytab);
    bytes += size;
  }
  return parts;
}

function errorParts(errors: readonly ScanError[]): ScanError[][] {
  const parts: ScanError[][] = [];
  for (let at = 0; at < errors.length; at += mostErrors) parts.push(errors.slice(at, at + mostErrors));
  return parts;
}

const shortened = ({ path, reason }: ScanError): ScanError => ({
  path: path.slice(0, longest.path),
  reason: reason.slice(0, longest.reason),
});
