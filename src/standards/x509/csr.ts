import type { KeyObject } from "node:crypto";
import { id_ce_subjectAltName } from "@peculiar/asn1-x509";
import { contextTag, DerReader, MalformedDer, oid, tags } from "../der.ts";
import { type AlternativeNames, nameKinds, readAlternativeNames } from "./alternative-names.ts";
import { wholeOctets } from "./certificate-fields.ts";
import { isSignedBy, signatureScheme } from "./csr-signature.ts";
import { type DistinguishedName, readName } from "./distinguished-name.ts";
import { type KeyKind, readPublicKey, UnsupportedKey } from "./key-pairs.ts";

/** What is taken of a certificate signing request (PKCS #10, RFC 2986): its signature was right. */
export interface Csr {
  readonly publicKey: KeyObject;
  readonly kind: KeyKind;
  /** As it stands in the request: nameFaults has not been asked. */
  readonly subject: DistinguishedName;
  /** As they stand in the request: canonicalNames has not been asked. There are at most 100 of a kind. */
  readonly alternativeNames: AlternativeNames;
}

/** A request that no certificate is issued for; the message is fit for the field csr_pem. */
export class InvalidCsr extends Error {}

const maxPemLength = 65_536;
const maxNamesOfKind = 100;

/**
 * Reads one request in PEM ("CERTIFICATE REQUEST" or "NEW CERTIFICATE REQUEST"). Throws InvalidCsr for whatever is no such
 * thing, holds more than one, is signed by another key than its own, or has a key that nobody here issues for. Of the
 * extensions that are asked for it takes alternative names; what a certificate may be used for is not the requester's choice.
 */
export function readCsr(pem: string): Csr {
  const der = decodePem(pem);
  try {
    return readRequest(der);
  } catch (error) {
    if (error instanceof UnsupportedKey) throw new InvalidCsr(error.message);
    if (error instanceof MalformedDer) throw new InvalidCsr("is no certificate signing request: its DER is malformed");
    throw error;
  }
}

const block =
  /^-----BEGIN (NEW )?CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\s]+)-----END \1CERTIFICATE REQUEST-----[ \t]*$/m;

/** Of one block. Around it there may be text, as some software explains what is in it (RFC 7468 section 2). */
function decodePem(pem: string): Buffer {
  if (pem.length > maxPemLength) throw new InvalidCsr(`must have at most ${maxPemLength} characters`);
  const base64 = pem.split("-----BEGIN ").length === 2 ? block.exec(pem)?.[2]?.replace(/\s/g, "") : undefined;
  if (base64 === undefined) throw new InvalidCsr("must be one certificate signing request in PEM, and nothing else");
  const der = Buffer.from(base64, "base64");
  if (der.toString("base64") !== base64) throw new InvalidCsr("is not in base64 between its first and its last line");
  return der;
}

/** CertificationRequest. */
function readRequest(der: Buffer): Csr {
  const outer = new DerReader(der);
  const request = outer.inside(tags.sequence);
  outer.end();
  const signed = request.value();
  const algorithm = request.value();
  const signature = wholeOctets(request.contents(tags.bitString));
  request.end();
  const csr = readInfo(signed);
  const scheme = signatureScheme(algorithm);
  if (scheme === undefined) {
    throw new InvalidCsr("must be signed by RSA or ECDSA with SHA-256, SHA-384 or SHA-512, or by Ed25519");
  }
  if (!isSignedBy(csr.publicKey, scheme, signed, signature))
    throw new InvalidCsr("is not signed by the key that it holds");
  return csr;
}

/** CertificationRequestInfo, version 1, which is written as 0. */
function readInfo(der: Buffer): Csr {
  const info = new DerReader(der).inside(tags.sequence);
  const version = info.integer();
  if (!version.equals(Buffer.of(0))) throw new InvalidCsr("must be of version 1");
  const subject = readName(info.value());
  const { publicKey, kind } = readPublicKey(info.value());
  // Some software leaves the attributes out where there are none.
  const names = info.isAtEnd ? undefined : requestedNames(info.inside(contextTag(0)));
  info.end();
  return { publicKey, kind, subject, alternativeNames: readNames(names) };
}

/** Extensions are asked for by PKCS #9 (RFC 2985 section 5.4.2), by old software of Microsoft under a number of its own. */
const extensionRequests = [oid("1.2.840.113549.1.9.14"), oid("1.3.6.1.4.1.311.2.1.14")];
const subjectAltName = oid(id_ce_subjectAltName);

/** The extension that asks for alternative names, of all that a request asks for. */
function requestedNames(attributes: DerReader): Buffer | undefined {
  const found: Buffer[] = [];
  while (!attributes.isAtEnd) {
    const attribute = attributes.inside(tags.sequence);
    const type = attribute.value();
    if (!extensionRequests.some((known) => known.equals(type))) continue;
    const values = attribute.inside(tags.set);
    attribute.end();
    const extensions = values.inside(tags.sequence);
    // What is asked for in a second one would be passed over.
    values.end();
    while (!extensions.isAtEnd) {
      const extension = extensions.inside(tags.sequence);
      const id = extension.value();
      if (extension.isNext(tags.boolean)) extension.value();
      const value = extension.contents(tags.octetString);
      extension.end();
      if (id.equals(subjectAltName)) found.push(value);
    }
  }
  if (found.length > 1) throw new InvalidCsr("must ask for alternative names once only");
  return found[0];
}

function readNames(der: Buffer | undefined): AlternativeNames {
  if (der === undefined) return { dns: [], ip: [], email: [], uri: [] };
  const { names } = readAlternativeNames(der);
  if (nameKinds.some((kind) => names[kind].length > maxNamesOfKind)) {
    throw new InvalidCsr(`must ask for at most ${maxNamesOfKind} names of a kind`);
  }
  return names;
}
