import type { KeyObject } from "node:crypto";
import type { AlternativeNames } from "./alternative-names.ts";
import type { DistinguishedName } from "./distinguished-name.ts";
import type { NameConstraints } from "./name-constraints.ts";

/** An authority that signs. */
export interface Issuer {
  /** Its certificate in DER. */
  readonly certificate: Uint8Array;
  readonly privateKey: KeyObject;
}

/** Where relying parties ask about what an authority issued; all by http (RFC 5280 sections 4.2.1.13 and 4.2.2.1). */
export interface Pointers {
  readonly ocsp: string;
  readonly caIssuers: string;
  readonly crl: string;
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
  throw new Error(`not yet ${draft.serialNumber} ${privateKey.type}`);
}

/** The certificate of an authority below another one. */
export function issueIntermediate(issuer: Issuer, draft: AuthorityDraft, pointers: Pointers): Promise<Buffer> {
  throw new Error(`not yet ${issuer.certificate.length} ${draft.serialNumber} ${pointers.ocsp}`);
}

/** A certificate of a server or client: subject alternative names (critical without a subject), usages of its profile. */
export function issueLeaf(issuer: Issuer, draft: LeafDraft, pointers: Pointers): Promise<Buffer> {
  throw new Error(`not yet ${issuer.certificate.length} ${draft.serialNumber} ${pointers.ocsp}`);
}

/** A delegated OCSP responder's certificate: id-kp-OCSPSigning, id-pkix-ocsp-nocheck, no pointers (RFC 6960 section 4.2.2.2). */
export function issueResponder(issuer: Issuer, draft: Draft): Promise<Buffer> {
  throw new Error(`not yet ${issuer.certificate.length} ${draft.serialNumber}`);
}

/** The subject of a certificate as it stands there, in DER. */
export function subjectDer(certificate: Uint8Array): Uint8Array {
  throw new Error(`not yet ${certificate.length}`);
}

/** The bits of a certificate's public key, without the octet that counts unused bits: what OCSP and key identifiers hash. */
export function publicKeyBits(certificate: Uint8Array): Uint8Array {
  throw new Error(`not yet ${certificate.length}`);
}

/** SHA-1 of the bits of the public key (RFC 5280 section 4.2.1.2 method 1), which is also the responder id by key. */
export function keyIdentifier(certificate: Uint8Array): Buffer {
  throw new Error(`not yet ${certificate.length}`);
}
