/** A subject or issuer as far as it is made here: one value for each attribute, "" where there is none. */
export interface DistinguishedName {
  readonly commonName: string;
  readonly organization: string;
  readonly organizationalUnit: string;
  readonly country: string;
  readonly state: string;
  readonly locality: string;
}

/** What is wrong with a name, by its path below it, as in "country" or "dns[3]". */
export interface NameFault {
  readonly path: string;
  readonly message: string;
}

/** Name in DER (RFC 5280 section 4.1.2.4), each attribute a set of its own: country, state, locality, O, OU, CN. */
export function encodeName(name: DistinguishedName): Uint8Array {
  throw new Error(`not yet ${name.commonName}`);
}

/** Reads what encodeName writes, and of other names the first value of each attribute that it knows. */
export function readName(der: Uint8Array): DistinguishedName {
  throw new Error(`not yet ${der.length}`);
}

/** Control characters, blanks around, more than X.520 allows (ub-… of RFC 5280 appendix A), a country that is none. */
export function nameFaults(name: DistinguishedName): NameFault[] {
  throw new Error(`not yet ${name.commonName}`);
}
