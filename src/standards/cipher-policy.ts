import { enctypeName, enctypeNumber } from "./enctypes.ts";

/** What a cipher policy says. */
export interface PolicyTerms {
  /** Encryption types by the names that somebody chose. */
  readonly allowedCiphers: string[];
  readonly deprecatedCiphers: string[];
  readonly enforcementMode: "warn" | "enforce";
}

/** The verdict of a cipher policy on what a keytab holds (G-6.14). */
export type Compliance = "compliant" | "warning" | "non_compliant";

/** A cipher policy in a form to compare with: by canonical names (G-6.13). */
export interface CipherRules {
  readonly allowed: ReadonlySet<string>;
  readonly deprecated: ReadonlySet<string>;
  /** What is not allowed is refused, and not only marked. */
  readonly enforced: boolean;
}

/** A verdict, with the reason for each encryption type that the policy objects to. */
export interface Verdict {
  readonly compliance: Compliance;
  readonly violations: Readonly<Record<string, string>>;
}

/** Why an encryption type makes a keytab non_compliant. */
export const notAllowed = "not in allowed_ciphers";

const isDeprecated = "deprecated by the cipher policy";

/** What a cipher policy says of encryption types, which are given by canonical names, as files are read. */
export function verdictOf(encryptionTypes: readonly string[], rules: CipherRules): Verdict {
  const outside = encryptionTypes.filter((type) => !rules.allowed.has(type));
  const warned = encryptionTypes.filter((type) => rules.allowed.has(type) && rules.deprecated.has(type));
  return {
    compliance: outside.length > 0 ? "non_compliant" : warned.length > 0 ? "warning" : "compliant",
    violations: Object.fromEntries([
      ...outside.map((type) => [type, notAllowed] as const),
      ...warned.map((type) => [type, isDeprecated] as const),
    ]),
  };
}

/** The name by which encryption types are compared. One that nobody knows is kept, and equals only itself. */
export function canonicalCipher(text: string): string {
  const number = enctypeNumber(text);
  return number === undefined ? text.trim().toLowerCase() : enctypeName(number);
}

/** What the terms come to, by whatever names they are in. */
export const rulesOf = ({ allowedCiphers, deprecatedCiphers, enforcementMode }: PolicyTerms): CipherRules => ({
  allowed: new Set(allowedCiphers.map(canonicalCipher)),
  deprecated: new Set(deprecatedCiphers.map(canonicalCipher)),
  enforced: enforcementMode === "enforce",
});
