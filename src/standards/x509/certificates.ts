import type { KeyObject } from "node:crypto";
import { id_kp_clientAuth, id_kp_OCSPSigning, id_kp_serverAuth, KeyUsageFlags } from "@peculiar/asn1-x509";
import { bitString, explicit, generalizedTime, integerFromHex, sequence, utcTime } from "../der.ts";
import { type AlternativeNames, encodeAlternativeNames, nameKinds } from "./alternative-names.ts";
import { bitsOfKey, identifierOfBits, subjectDer, subjectKeyIdentifierOf } from "./certificate-fields.ts";
import { type DistinguishedName, encodeName } from "./distinguished-name.ts";
import {
  authorityConstraints,
  authorityKeyIdentifier,
  extendedKeyUsage,
  keyUsage,
  nameConstraints,
  noAuthority,
  ocspNoCheck,
  type Pointers,
  pointersTo,
  subjectAlternativeNames,
  subjectKeyIdentifier,
} from "./extensions.ts";
import { encodeNameConstraints, type NameConstraints } from "./name-constraints.ts";
import { sign, signingAlgorithmOf } from "./signing.ts";

export { keyIdentifier, publicKeyBits, subjectDer } from "./certificate-fields.ts";
export type { Pointers } from "./extensions.ts";

/** An authority that signs. */
export interface Issuer {
  /** Its certificate in DER. */
  readonly certificate: Uint8Array;
  readonly privateKey: KeyObject;
}

/** What all certificates have. Times are cut to whole seconds. */
export interface Draft {
  /** Lower-case hexadecimal digits, as newSerialNumber makes them. */
  readonly serialNumber: string;
  readonly subject: DistinguishedName;
  readonly publicKey: KeyObject;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

export interface AuthorityDraft extends Draft {
  /** Undefined means any number. */
  readonly maxPathLength: number | undefined;
  readonly nameConstraints: NameConstraints | undefined;
}

export type Profile = "server" | "client" | "server_client";

export interface LeafDraft extends Draft {
  readonly alternativeNames: AlternativeNames;
  readonly profile: Profile;
}

/** A root's own certificate, signed by its key. DER, as all below. */
export function issueRoot(draft: AuthorityDraft, privateKey: KeyObject): Promise<Buffer> {
  const signer = { subject: encodeName(draft.subject), privateKey };
  return issue(signer, draft, authorityExtensions(draft));
}

/** The certificate of an authority below another one. */
export function issueIntermediate(issuer: Issuer, draft: AuthorityDraft, pointers: Pointers): Promise<Buffer> {
  return issueBelow(issuer, draft, [...authorityExtensions(draft), ...pointersTo(pointers)]);
}

/** A certificate of a server or client: subject alternative names (critical without a subject), usages of its profile. */
export async function issueLeaf(issuer: Issuer, draft: LeafDraft, pointers: Pointers): Promise<Buffer> {
  const { alternativeNames, profile, publicKey } = draft;
  const hasNames = nameKinds.some((kind) => alternativeNames[kind].length > 0);
  const hasSubject = Object.values(draft.subject).some((value) => value !== "");
  if (!hasNames && !hasSubject) throw new RangeError("a certificate has to name somebody");
  const names = hasNames ? [subjectAlternativeNames(encodeAlternativeNames(alternativeNames), !hasSubject)] : [];
  const usages = leafUsages(profile, publicKey);
  return issueBelow(issuer, draft, [noAuthority, ...usages, ...names, ...pointersTo(pointers)]);
}

/** A delegated OCSP responder's certificate: id-kp-OCSPSigning, id-pkix-ocsp-nocheck, no pointers (RFC 6960 section 4.2.2.2). */
export function issueResponder(issuer: Issuer, draft: Draft): Promise<Buffer> {
  return issueBelow(issuer, draft, [noAuthority, signing, extendedKeyUsage(id_kp_OCSPSigning), ocspNoCheck]);
}

const signing = keyUsage(KeyUsageFlags.digitalSignature);
/** TLS before version 1.3 has clients encrypt something for the RSA key of a server. */
const signingAndEncipherment = keyUsage(KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment);

const purposes: Readonly<Record<Profile, Buffer>> = {
  server: extendedKeyUsage(id_kp_serverAuth),
  client: extendedKeyUsage(id_kp_clientAuth),
  server_client: extendedKeyUsage(id_kp_serverAuth, id_kp_clientAuth),
};

function leafUsages(profile: Profile, publicKey: KeyObject): Buffer[] {
  const isEncipheredFor = profile !== "client" && publicKey.asymmetricKeyType === "rsa";
  return [isEncipheredFor ? signingAndEncipherment : signing, purposes[profile]];
}

function authorityExtensions({ maxPathLength, nameConstraints: constraints }: AuthorityDraft): Buffer[] {
  const value = constraints && encodeNameConstraints(constraints);
  return [
    authorityConstraints(maxPathLength),
    keyUsage(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign),
    ...(value === undefined ? [] : [nameConstraints(value)]),
  ];
}

function issueBelow({ certificate, privateKey }: Issuer, draft: Draft, extensions: readonly Buffer[]): Promise<Buffer> {
  const signer = { subject: subjectDer(certificate), privateKey };
  return issue(signer, draft, [authorityKeyIdentifier(subjectKeyIdentifierOf(certificate)), ...extensions]);
}

/** Builds and signs a Certificate (RFC 5280 section 4.1) of version 3. */
async function issue(
  signer: { readonly subject: Uint8Array; readonly privateKey: KeyObject },
  draft: Draft,
  extensions: readonly Buffer[],
): Promise<Buffer> {
  const { serialNumber, subject, publicKey, notBefore, notAfter } = draft;
  if (!/^[4-7][0-9a-f]{39}$/.test(serialNumber))
    throw new RangeError("a serial number has 159 bits, the first one set");
  const { identifier } = signingAlgorithmOf(signer.privateKey);
  const publicKeyInfo = publicKey.export({ format: "der", type: "spki" });
  const unsigned = sequence(
    version3,
    integerFromHex(serialNumber),
    identifier,
    signer.subject,
    sequence(time(notBefore), time(notAfter)),
    encodeName(subject),
    publicKeyInfo,
    explicit(3, sequence(subjectKeyIdentifier(identifierOfBits(bitsOfKey(publicKeyInfo))), ...extensions)),
  );
  return sequence(unsigned, identifier, bitString(await sign(signer.privateKey, unsigned)));
}

const version3 = explicit(0, integerFromHex("2"));

/** UTCTime through the year 2049, GeneralizedTime from then on (RFC 5280 section 4.1.2.5). */
const time = (at: Date) => (at.getUTCFullYear() < 2050 ? utcTime(at) : generalizedTime(at));
