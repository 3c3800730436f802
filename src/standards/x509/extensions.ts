import { AsnConvert } from "@peculiar/asn1-schema";
import {
  BasicConstraints,
  ExtendedKeyUsage,
  id_ad_caIssuers,
  id_ad_ocsp,
  id_ce_authorityKeyIdentifier,
  id_ce_basicConstraints,
  id_ce_cRLDistributionPoints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_ce_nameConstraints,
  id_ce_subjectAltName,
  id_ce_subjectKeyIdentifier,
  id_pe_authorityInfoAccess,
  KeyUsage,
} from "@peculiar/asn1-x509";
import { boolean, contextTag, octetString, oid, primitiveContextTag, sequence, tags, tlv } from "../der.ts";
import { generalNameTags } from "./alternative-names.ts";

/**
 * Extensions of certificates (RFC 5280 section 4.2), each an Extension in DER. The library encodes what is made once or
 * seldom; what each certificate has of its own is written here, in a small part of the time.
 */

const critical = boolean(true);

function extension(id: string, value: Uint8Array, ...flags: readonly Uint8Array[]): Buffer {
  return sequence(oid(id), ...flags, octetString(value));
}

const encoded = (value: object) => new Uint8Array(AsnConvert.serialize(value));

/** Where relying parties ask about what an authority issued; all by http (RFC 5280 sections 4.2.1.13 and 4.2.2.1). */
export interface Pointers {
  readonly ocsp: string;
  readonly caIssuers: string;
  readonly crl: string;
}

/** That the subject is an authority, and how many may follow below it; undefined means any number. */
export function authorityConstraints(maxPathLength: number | undefined): Buffer {
  const value = new BasicConstraints({ cA: true });
  if (maxPathLength !== undefined) value.pathLenConstraint = maxPathLength;
  return extension(id_ce_basicConstraints, encoded(value), critical);
}

/** That the subject is no authority. This goes without saying, but not to all software that reads no key usage. */
export const noAuthority = extension(id_ce_basicConstraints, encoded(new BasicConstraints()), critical);

/** `usages` are flags of KeyUsageFlags. */
export const keyUsage = (usages: number): Buffer => extension(id_ce_keyUsage, encoded(new KeyUsage(usages)), critical);

export const extendedKeyUsage = (...purposes: readonly string[]): Buffer =>
  extension(id_ce_extKeyUsage, encoded(new ExtendedKeyUsage([...purposes])));

export const subjectKeyIdentifier = (identifier: Uint8Array): Buffer =>
  extension(id_ce_subjectKeyIdentifier, octetString(identifier));

export const authorityKeyIdentifier = (identifier: Uint8Array): Buffer =>
  extension(id_ce_authorityKeyIdentifier, sequence(tlv(primitiveContextTag(0), identifier)));

/** `names` are GeneralNames in DER. They are all that names the subject where that is empty (RFC 5280 section 4.2.1.6). */
export const subjectAlternativeNames = (names: Uint8Array, isSubjectEmpty: boolean): Buffer =>
  extension(id_ce_subjectAltName, names, ...(isSubjectEmpty ? [critical] : []));

/** `constraints` are NameConstraints in DER. */
export const nameConstraints = (constraints: Uint8Array): Buffer =>
  extension(id_ce_nameConstraints, constraints, critical);

/** AuthorityInfoAccess, and CRLDistributionPoints with the full name of one point. */
export function pointersTo({ ocsp, caIssuers, crl }: Pointers): Buffer[] {
  const at = (url: string) => tlv(generalNameTags.uri, Buffer.from(url, "latin1"));
  const access = [sequence(oid(id_ad_ocsp), at(ocsp)), sequence(oid(id_ad_caIssuers), at(caIssuers))];
  const point = sequence(tlv(contextTag(0), tlv(contextTag(0), at(crl))));
  return [
    extension(id_pe_authorityInfoAccess, sequence(...access)),
    extension(id_ce_cRLDistributionPoints, sequence(point)),
  ];
}

/** id-pkix-ocsp-nocheck: a responder's own certificate is not asked about (RFC 6960 section 4.2.2.2.1). */
export const ocspNoCheck = extension("1.3.6.1.5.5.7.48.1.5", tlv(tags.null));
