import { contextTag, DerReader, MalformedDer, oid, tags } from "../der.ts";
import { ocspIds } from "./object-identifiers.ts";

/** OCSP requests (RFC 6960 section 4.1, with the nonce of RFC 9654). They come from anybody. */

export type HashAlgorithm = "SHA-1" | "SHA-256" | "SHA-384" | "SHA-512";

/** How a request names a certificate. All octets are views of the request. */
export interface CertId {
  /** The whole CertID as it stands in the request: an answer repeats it. */
  readonly bytes: Buffer;
  /** Undefined for one that no issuer here is known by, such as MD5; and when the hashes have not its length. */
  readonly hashAlgorithm: HashAlgorithm | undefined;
  /** Of the issuer's subject, in DER. */
  readonly nameHash: Buffer;
  /** Of the bits of the issuer's public key. */
  readonly keyHash: Buffer;
  /**
   * Lower-case hexadecimal digits without leading zeros. Undefined when no certificate has such a number: below zero, or
   * of more than 20 octets (RFC 5280 section 4.1.2.2). To ask about one is allowed.
   */
  readonly serialNumber: string | undefined;
}

export interface OcspRequest {
  /** In the order of the request: 1 to 16. */
  readonly certIds: readonly CertId[];
  /** What the answer has to repeat: 1 to 128 octets. */
  readonly nonce: Buffer | undefined;
}

/** Whatever is no request that could be answered: the answer is malformedRequest. */
export class MalformedRequest extends Error {}

export const maxRequestBytes = 64 * 1024;
export const maxCertIds = 16;
const maxNonceBytes = 128;
const maxSerialNumberBytes = 20;

/** Object identifiers are compared as they stand in DER, in a text of an octet for each character. */
const textOf = (der: Uint8Array) => Buffer.from(der.buffer, der.byteOffset, der.length).toString("latin1");

const hashes = new Map<string, { readonly name: HashAlgorithm; readonly length: number }>([
  [textOf(oid("1.3.14.3.2.26")), { name: "SHA-1", length: 20 }],
  [textOf(oid("2.16.840.1.101.3.4.2.1")), { name: "SHA-256", length: 32 }],
  [textOf(oid("2.16.840.1.101.3.4.2.2")), { name: "SHA-384", length: 48 }],
  [textOf(oid("2.16.840.1.101.3.4.2.3")), { name: "SHA-512", length: 64 }],
]);

const nonceId = textOf(oid(ocspIds.nonce));
/** What may be critical: it is honoured, or the one form and algorithm that answers have does for it. */
const understood = new Set([
  nonceId,
  textOf(oid(ocspIds.acceptableResponses)),
  textOf(oid(ocspIds.preferredSignatureAlgorithms)),
]);

/** Reads a request. Whether it is signed, and by whom, is passed over. Throws MalformedRequest and nothing else. */
export function readOcspRequest(bytes: Uint8Array): OcspRequest {
  if (bytes.length > maxRequestBytes) throw new MalformedRequest("the request is too large");
  try {
    return readRequest(bytes);
  } catch (error) {
    if (error instanceof MalformedDer) throw new MalformedRequest(error.message);
    throw error;
  }
}

function readRequest(bytes: Uint8Array): OcspRequest {
  const whole = new DerReader(bytes);
  const outer = whole.inside(tags.sequence);
  whole.end();
  const request = outer.inside(tags.sequence);
  if (outer.isNext(contextTag(0))) single(outer.inside(contextTag(0)));
  outer.end();

  if (request.isNext(contextTag(0))) readVersion(request.inside(contextTag(0)));
  if (request.isNext(contextTag(1))) single(request.inside(contextTag(1)));
  const certIds = readList(request.inside(tags.sequence));
  const nonce = request.isNext(contextTag(2)) ? readExtensions(request.inside(contextTag(2))) : undefined;
  request.end();
  return { certIds, nonce };
}

/** The signature, or the requestor's name, which says nothing unsigned (RFC 9919): whatever it is, it is one value. */
function single(reader: DerReader): void {
  reader.value();
  reader.end();
}

/** It should be left out when it is 0; some write it. */
function readVersion(reader: DerReader): void {
  const version = reader.integer();
  reader.end();
  if (version.length !== 1 || version[0] !== 0) throw new MalformedRequest("a version that is not known");
}

function readList(list: DerReader): CertId[] {
  const certIds: CertId[] = [];
  while (!list.isAtEnd) {
    if (certIds.length === maxCertIds) throw new MalformedRequest("too many certificates");
    const request = list.inside(tags.sequence);
    certIds.push(readCertId(request.value()));
    // A nonce is none of a single certificate.
    if (request.isNext(contextTag(0))) readExtensions(request.inside(contextTag(0)));
    request.end();
  }
  if (certIds.length === 0) throw new MalformedRequest("no certificate is asked about");
  return certIds;
}

function readCertId(bytes: Buffer): CertId {
  const whole = new DerReader(bytes);
  const certId = whole.inside(tags.sequence);
  const hash = readHashAlgorithm(certId.inside(tags.sequence));
  const nameHash = certId.contents(tags.octetString);
  const keyHash = certId.contents(tags.octetString);
  const serialNumber = readSerialNumber(certId.integer());
  certId.end();
  const isSound = nameHash.length === hash?.length && keyHash.length === hash.length;
  return { bytes, hashAlgorithm: isSound ? hash.name : undefined, nameHash, keyHash, serialNumber };
}

/** The parameters of the known ones are NULL, or are absent, as RFC 5754 section 2 has it. */
function readHashAlgorithm(algorithm: DerReader) {
  const hash = hashes.get(readId(algorithm));
  if (!algorithm.isAtEnd) {
    const parameters = algorithm.value();
    const isNull = parameters.length === 2 && parameters[0] === tags.null;
    if (hash !== undefined && !isNull) throw new MalformedRequest("a hash algorithm has parameters");
  }
  algorithm.end();
  return hash;
}

function readSerialNumber(octets: Buffer): string | undefined {
  const first = octets[0] as number;
  const magnitude = first === 0 ? octets.subarray(1) : octets;
  if (first >= 0x80 || magnitude.length > maxSerialNumberBytes) return undefined;
  return magnitude.length === 0 ? "0" : magnitude.toString("hex").replace(/^0/, "");
}

/** The nonce, when there is one. Unknown extensions are passed over unless they are critical. */
function readExtensions(outer: DerReader): Buffer | undefined {
  const extensions = outer.inside(tags.sequence);
  outer.end();
  let nonce: Buffer | undefined;
  do {
    const extension = extensions.inside(tags.sequence);
    const id = readId(extension);
    const isCritical = extension.isNext(tags.boolean) && extension.boolean();
    const value = extension.inside(tags.octetString);
    extension.end();
    if (isCritical && !understood.has(id)) throw new MalformedRequest("a critical extension is not known");
    if (id === nonceId) {
      if (nonce !== undefined) throw new MalformedRequest("two nonces");
      nonce = readNonce(value);
    }
  } while (!extensions.isAtEnd);
  return nonce;
}

/** An OCTET STRING within that of the extension (RFC 9654 section 2.1). */
function readNonce(value: DerReader): Buffer {
  const nonce = value.contents(tags.octetString);
  value.end();
  if (nonce.length === 0 || nonce.length > maxNonceBytes) throw new MalformedRequest("a nonce has 1 to 128 octets");
  return nonce;
}

/** With its tag and length. */
function readId(reader: DerReader): string {
  if (!reader.isNext(tags.oid)) throw new MalformedRequest("an object identifier is expected");
  return textOf(reader.value());
}
