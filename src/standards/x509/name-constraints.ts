import type { AlternativeNames } from "./alternative-names.ts";
import type { DistinguishedName, NameFault } from "./distinguished-name.ts";

/** Ranges of names (RFC 5280 section 4.2.1.10): domains, networks as in 10.0.0.0/8, mail and URI hosts. */
export interface NameRanges {
  readonly dns: readonly string[];
  readonly ip: readonly string[];
  readonly email: readonly string[];
  readonly uri: readonly string[];
}

export interface NameConstraints {
  readonly permitted: NameRanges;
  readonly excluded: NameRanges;
}

/** Constraints in canonical form, and what is wrong with ranges that have none, by paths as in "permitted.ip[0]". */
export function canonicalConstraints(constraints: NameConstraints): {
  constraints: NameConstraints;
  faults: NameFault[];
} {
  throw new Error(`not yet ${constraints.permitted.dns.length}`);
}

/** Those of a certificate's names that the constraints of the authorities above it do not allow. */
export function forbiddenNames(
  constraints: readonly NameConstraints[],
  subject: DistinguishedName,
  names: AlternativeNames,
): NameFault[] {
  throw new Error(`not yet ${constraints.length} ${subject.commonName} ${names.dns.length}`);
}
