import { type Compliance, notAllowed, verdictOf } from "../../standards/cipher-policy.ts";
import { KeytabError, parseKeytab } from "../../standards/keytab.ts";
import { keytabWarnings } from "../../standards/keytab-warnings.ts";
import { invalid, invalidField } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { readRules } from "./cipher-policies.ts";
import type { KeytabContents } from "./keytab.ts";

/** A file that somebody brought, and what is in it. */
export interface KeytabFile {
  readonly bytes: Uint8Array;
  readonly contents: KeytabContents;
  /** What is legal and worth a second look; for the audit log. */
  readonly warnings: string[];
}

/** As much as agents report. A file may hold one of a megabyte, which every list would show. */
const longestPrincipal = 8192;

/** Reads a file. Throws VALIDATION_ERROR, which says at which byte the fault is and nothing of what is there. */
export function readKeytab(bytes: Uint8Array): KeytabFile {
  try {
    const keytab = parseKeytab(bytes);
    const { principal, realm, kvno, encryptionTypes, entries, hash } = keytab;
    if ([...principal].length > longestPrincipal) {
      throw invalidField(
        "keytab_data",
        `the principal of the first entry is longer than ${longestPrincipal} characters`,
      );
    }
    return {
      bytes,
      contents: {
        principal,
        realm,
        kvno,
        encryptionTypes: [...encryptionTypes],
        entryCount: entries.length,
        keytabHash: hash,
      },
      warnings: keytabWarnings(bytes, keytab).map(({ kind }) => kind),
    };
  } catch (error) {
    throw error instanceof KeytabError ? invalidField("keytab_data", error.message) : error;
  }
}

/** What the cipher policy says of a file; under `enforce`, what it does not allow is refused (G-6.15). */
export async function judge(call: Call, { contents: { encryptionTypes } }: KeytabFile): Promise<Compliance> {
  const rules = await readRules(call, call.caller.organizationId);
  const { compliance, violations } = verdictOf(encryptionTypes, rules);
  if (rules.enforced && compliance === "non_compliant") {
    const outside = Object.keys(violations).filter((cipher) => violations[cipher] === notAllowed);
    throw invalid(outside.map((cipher) => ({ field: "keytab_data", message: `${cipher}: ${notAllowed}` })));
  }
  return compliance;
}
