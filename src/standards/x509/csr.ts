import type { KeyObject } from "node:crypto";
import type { AlternativeNames } from "./alternative-names.ts";
import type { DistinguishedName } from "./distinguished-name.ts";
import type { KeyKind } from "./key-pairs.ts";

/** What is taken of a certificate signing request (PKCS #10, RFC 2986): its signature was right. */
export interface Csr {
  readonly publicKey: KeyObject;
  readonly kind: KeyKind;
  readonly subject: DistinguishedName;
  readonly alternativeNames: AlternativeNames;
}

/** A request that no certificate is issued for; the message is fit for the field csr_pem. */
export class InvalidCsr extends Error {}

/**
 * Reads one request in PEM ("CERTIFICATE REQUEST" or "NEW CERTIFICATE REQUEST"). Throws InvalidCsr for whatever is no such
 * thing, holds more than one, is signed by another key than its own, or has a key that nobody here issues for.
 */
export function readCsr(pem: string): Csr {
  throw new Error(`not yet ${pem.length}`);
}
