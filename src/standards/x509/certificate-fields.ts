import { createHash } from "node:crypto";
import { id_ce_subjectKeyIdentifier } from "@peculiar/asn1-x509";
import { contextTag, DerReader, MalformedDer, oid, tags } from "../der.ts";

/** Single fields of a certificate in DER (RFC 5280 section 4.1), as they stand there. */

/** The subject of a certificate as it stands there, in DER. */
export function subjectDer(certificate: Uint8Array): Uint8Array {
  return atSubject(certificate).value();
}

/** The bits of a certificate's public key, without the octet that counts unused bits: what OCSP and key identifiers hash. */
export function publicKeyBits(certificate: Uint8Array): Uint8Array {
  const fields = atSubject(certificate);
  fields.value();
  return bitsOfKey(fields.value());
}

/** The same bits out of a SubjectPublicKeyInfo in DER. */
export function bitsOfKey(info: Uint8Array): Uint8Array {
  const fields = new DerReader(info).inside(tags.sequence);
  fields.value();
  return wholeOctets(fields.contents(tags.bitString));
}

/** What is in a BIT STRING that consists of whole octets. */
export function wholeOctets(contents: Buffer): Buffer {
  if (contents[0] !== 0) throw new MalformedDer("a BIT STRING does not consist of whole octets");
  return contents.subarray(1);
}

/** SHA-1 of the bits of the public key (RFC 5280 section 4.2.1.2 method 1), which is also the responder id by key. */
export function keyIdentifier(certificate: Uint8Array): Buffer {
  return identifierOfBits(publicKeyBits(certificate));
}

export const identifierOfBits = (bits: Uint8Array): Buffer => createHash("sha1").update(bits).digest();

/** The subject key identifier that a certificate holds; that by method 1 where it holds none. */
export function subjectKeyIdentifierOf(certificate: Uint8Array): Buffer {
  const fields = atSubject(certificate);
  while (!fields.isAtEnd && !fields.isNext(contextTag(3))) fields.value();
  if (fields.isAtEnd) return keyIdentifier(certificate);
  const extensions = fields.inside(contextTag(3)).inside(tags.sequence);
  const wanted = oid(id_ce_subjectKeyIdentifier);
  while (!extensions.isAtEnd) {
    const extension = extensions.inside(tags.sequence);
    if (!extension.value().equals(wanted)) continue;
    if (extension.isNext(tags.boolean)) extension.boolean();
    return extension.inside(tags.octetString).contents(tags.octetString);
  }
  return keyIdentifier(certificate);
}

/** Reads the fields of TBSCertificate from the subject on. */
function atSubject(certificate: Uint8Array): DerReader {
  const fields = new DerReader(certificate).inside(tags.sequence).inside(tags.sequence);
  // Certificates of version 1 do not say their version.
  if (fields.isNext(contextTag(0))) fields.value();
  const before = ["serialNumber", "signature", "issuer", "validity"];
  for (const _ of before) fields.value();
  return fields;
}
