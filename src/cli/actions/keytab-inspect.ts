import { CipherPolicyService } from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { rulesOf, type Verdict, verdictOf } from "../../standards/cipher-policy.ts";
import { enctypeName, enctypeStrength } from "../../standards/enctypes.ts";
import type { Keytab, KeytabEntry } from "../../standards/keytab.ts";
import { type KeytabWarning, keytabWarnings } from "../../standards/keytab-warnings.ts";
import { readPolicyFile } from "../cipher-policy.ts";
import type { Json } from "../commands/options.ts";
import { parsed, readKeytabBytes } from "../keytab-file.ts";
import { print, printJson } from "../output.ts";
import { openSession } from "../session.ts";
import { visible } from "../visible.ts";

export interface InspectOptions extends Json {
  readonly policy?: boolean;
  readonly policyFile?: string;
}

interface Inspection {
  readonly keytab: Keytab;
  readonly warnings: readonly KeytabWarning[];
  /** When a policy was asked for. */
  readonly verdict: Verdict | undefined;
}

/** Prints what is in a file, never its keys, and what there is to say against it. */
export async function inspect(file: string, options: InspectOptions): Promise<void> {
  const bytes = await readKeytabBytes(file);
  const keytab = parsed(file, bytes);
  const policy = await policyOf(options);
  const inspection: Inspection = {
    keytab,
    warnings: keytabWarnings(bytes, keytab),
    // A verdict is the same whether it is enforced or not.
    verdict: policy && verdictOf(keytab.encryptionTypes, rulesOf({ ...policy, enforcementMode: "warn" })),
  };
  if (options.json) printJson(jsonOf(inspection));
  else print(`${[`Keytab name: FILE:${file}`, ...linesOf(inspection)].map(visible).join("\n")}\n`);
}

async function policyOf({ policy, policyFile }: InspectOptions) {
  if (policyFile !== undefined) return readPolicyFile(policyFile);
  return policy === true ? openSession()(CipherPolicyService).getCipherPolicy({}) : undefined;
}

/** The table is that of `klist -kte`. */
function linesOf({ keytab, warnings, verdict }: Inspection): string[] {
  return [
    "KVNO Timestamp            Principal",
    `---- -------------------- ${"-".repeat(56)}`,
    ...keytab.entries.map(entryLine),
    ...warnings.map(({ message }) => `warning: ${message}`),
    ...(verdict === undefined ? [] : [`policy: ${verdict.compliance}`]),
    ...(verdict === undefined ? [] : keytab.encryptionTypes.map((type) => typeLine(type, verdict))),
  ];
}

const typeLine = (type: string, { violations }: Verdict) => `  ${type}: ${violations[type] ?? "allowed"}`;

function entryLine({ kvno, timestamp, principal, enctype }: KeytabEntry): string {
  const mark = enctypeStrength(enctype) === "strong" ? "" : "DEPRECATED:";
  return `${String(kvno).padStart(4)} ${timeOf(timestamp)} ${principal} (${mark}${enctypeName(enctype)})`;
}

/** Of seconds since 1970, in UTC. */
const timeOf = (timestamp: number) => `${new Date(timestamp * 1000).toISOString().slice(0, 19)}Z`;

/** In the names of the REST API, where it has them. */
const jsonOf = ({ keytab, warnings, verdict }: Inspection) => ({
  principal: keytab.principal,
  realm: keytab.realm,
  kvno: keytab.kvno,
  encryption_types: keytab.encryptionTypes,
  entry_count: keytab.entries.length,
  keytab_hash: keytab.hash,
  file_version: `050${keytab.version}`,
  entries: keytab.entries.map(({ principal, realm, kvno, timestamp, enctype, key }) => ({
    principal,
    realm,
    kvno,
    timestamp: timeOf(timestamp),
    encryption_type: enctypeName(enctype),
    key_length: key.length,
  })),
  warnings,
  cipher_compliance: verdict?.compliance ?? null,
  cipher_violations: verdict?.violations ?? null,
});
