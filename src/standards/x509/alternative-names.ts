import type { NameFault } from "./distinguished-name.ts";

/** What a certificate is for (RFC 5280 section 4.2.1.6), in the forms that people write. */
export interface AlternativeNames {
  /** In A-labels, lower-case; the first label may be a star. */
  readonly dns: readonly string[];
  /** In the shortest form of each version. */
  readonly ip: readonly string[];
  readonly email: readonly string[];
  readonly uri: readonly string[];
}

/** Names in their canonical forms, each once, and what is wrong with those that have none. */
export function canonicalNames(names: AlternativeNames): { names: AlternativeNames; faults: NameFault[] } {
  throw new Error(`not yet ${names.dns.length}`);
}

/** Whether a common name is a host name or an address, which a server's certificate then holds as an alternative name. */
export function asAlternativeName(commonName: string): Partial<AlternativeNames> | undefined {
  throw new Error(`not yet ${commonName}`);
}

/** GeneralNames in DER. */
export function encodeAlternativeNames(names: AlternativeNames): Uint8Array {
  throw new Error(`not yet ${names.dns.length}`);
}

/** Reads GeneralNames; kinds that are not listed above are passed over, and said in `others`. */
export function readAlternativeNames(der: Uint8Array): { names: AlternativeNames; others: number } {
  throw new Error(`not yet ${der.length}`);
}
