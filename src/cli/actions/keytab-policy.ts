import {
  type CipherPolicy,
  type CipherPolicyPreview,
  CipherPolicyPreviewSchema,
  CipherPolicySchema,
  CipherPolicyService,
  FileVerdictChangeSchema,
  KeytabVerdictChangeSchema,
} from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import {
  KeytabComplianceSchema,
  KeytabService,
  RefreshKeytabComplianceResponseSchema,
} from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { type PolicyTerms, readPolicyFile } from "../cipher-policy.ts";
import type { Json } from "../commands/options.ts";
import { usage } from "../failure.ts";
import { printRecord, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { openSession } from "../session.ts";

export interface TermsOptions extends Json {
  readonly allow?: string[];
  readonly deprecate?: string[];
  readonly mode?: string;
  readonly file?: string;
}
export interface PreviewOptions extends TermsOptions {
  readonly limit?: number;
}

export async function getPolicy(options: Json): Promise<void> {
  show(await openSession()(CipherPolicyService).getCipherPolicy({}), options);
}

export async function setPolicy(options: TermsOptions): Promise<void> {
  const api = openSession();
  show(await api(CipherPolicyService).updateCipherPolicy(await termsOf(api, options)), options);
}

/** Shows whose verdict would change, and changes nothing. */
export async function previewPolicy(options: PreviewOptions): Promise<void> {
  const api = openSession();
  const terms = await termsOf(api, options);
  const preview = await api(CipherPolicyService).previewCipherPolicy({ ...terms, limit: options.limit });
  if (options.json) printRestRecord(CipherPolicyPreviewSchema, preview);
  else printPreview(preview);
}

/** The terms in a file, or those of the server with what is given instead. */
async function termsOf(api: Api, { file, allow, deprecate, mode }: TermsOptions): Promise<PolicyTerms> {
  if (file !== undefined) return termsIn(await readPolicyFile(file));
  if (allow === undefined && deprecate === undefined && mode === undefined) {
    throw usage("which policy? give it with --file, or what is to be different with --allow, --deprecate and --mode");
  }
  const current = termsIn(await api(CipherPolicyService).getCipherPolicy({}));
  return {
    allowedCiphers: allow ?? current.allowedCiphers,
    deprecatedCiphers: deprecate ?? current.deprecatedCiphers,
    enforcementMode: mode ?? current.enforcementMode,
  };
}

const termsIn = ({ allowedCiphers, deprecatedCiphers, enforcementMode }: PolicyTerms): PolicyTerms => ({
  allowedCiphers,
  deprecatedCiphers,
  enforcementMode,
});

const show = (policy: CipherPolicy, options: Json): void =>
  printRecord(
    CipherPolicySchema,
    policy,
    [
      ["mode", ({ enforcementMode }) => enforcementMode],
      ["allowed", ({ allowedCiphers }) => allowedCiphers.join(", ")],
      ["deprecated", ({ deprecatedCiphers }) => deprecatedCiphers.join(", ") || "-"],
      ["updated", ({ updatedAt }) => timeText(updatedAt)],
    ],
    options,
  );

function printPreview({ keytabs, files, totals }: CipherPolicyPreview): void {
  if (totals !== undefined) {
    say(`${totals.changedKeytabs} of ${totals.keytabs} keytabs would have another verdict`);
    say(`${totals.changedFiles} of ${totals.files} files on hosts would have another verdict`);
    say(`${totals.changedPrincipals} principals would be concerned`);
  }
  if (keytabs.length > 0) {
    say("");
    printRecords(
      KeytabVerdictChangeSchema,
      keytabs,
      [
        ["KEYTAB", ({ name }) => name],
        ["PRINCIPAL", ({ principal }) => principal],
        ["FROM", ({ from }) => from],
        ["TO", ({ to }) => to],
        ["BECAUSE OF", ({ cipherViolations }) => Object.keys(cipherViolations).join(", ")],
        ["ID", ({ id }) => id],
      ],
      {},
    );
  }
  if (files.length > 0) {
    say("");
    printRecords(
      FileVerdictChangeSchema,
      files,
      [
        ["HOST", ({ hostname }) => hostname],
        ["FILE", ({ filePath }) => filePath],
        ["PRINCIPAL", ({ principal }) => principal],
        ["FROM", ({ from }) => from],
        ["TO", ({ to }) => to],
        ["BECAUSE OF", ({ cipherViolations }) => Object.keys(cipherViolations).join(", ")],
      ],
      {},
    );
  }
}

/** Checks a keytab against the policy of the moment. */
export async function check(id: string, { json }: Json): Promise<void> {
  const compliance = await openSession()(KeytabService).checkKeytabCompliance({ id });
  if (json) return printRestRecord(KeytabComplianceSchema, compliance);
  say(compliance.cipherCompliance);
  for (const [type, reason] of Object.entries(compliance.cipherViolations)) say(`  ${type}: ${reason}`);
}

/** Checks all keytabs against the policy of the moment. */
export async function refresh({ json }: Json): Promise<void> {
  const counts = await openSession()(KeytabService).refreshKeytabCompliance({});
  if (json) return printRestRecord(RefreshKeytabComplianceResponseSchema, counts);
  say(`${counts.updated} of ${counts.evaluated} keytabs have another verdict now`);
}
