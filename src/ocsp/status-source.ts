import type { KeyObject } from "node:crypto";
import type { RevocationReason } from "../standards/x509/revocation-reasons.ts";

/** An authority that certificates are asked about. */
export interface Authority {
  readonly id: string;
  /** Certificates are kept from then on (archive cutoff, RFC 6960 section 4.4.4). */
  readonly notBefore: Date;
  /** From then on nothing that it authorized can speak for it, nor it itself. */
  readonly notAfter: Date;
}

/** A delegated responder certificate and its key. */
export interface Signer {
  /** DER. */
  readonly certificate: Uint8Array;
  readonly privateKey: KeyObject;
  /** SHA-1 of the bits of its public key: the responder's id. */
  readonly keyHash: Uint8Array;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** A certificate by its issuer's id and its serial number in lower-case hexadecimal digits without leading zeros. */
export interface Question {
  readonly authorityId: string;
  readonly serialNumber: string;
}

/** What is true of an issued certificate at this moment. */
export interface CertificateState {
  /** Archive cutoff is added once it has passed. */
  readonly notAfter: Date;
  readonly revoked?: { readonly at: Date; readonly reason: RevocationReason };
}

/** A revocation list as it was built last. */
export interface PublishedCrl {
  readonly number: number;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  /** Of the DER, in bytes. */
  readonly size: number;
  /** Hexadecimal digits. */
  readonly sha256: string;
  /** The DER in pieces; one is in memory at a time. */
  read(): AsyncIterable<Uint8Array>;
}

/** What the responder knows of its own state at this moment. */
export interface ResponderState {
  readonly databaseConnected: boolean;
  /** Certificate authorities that it answers for. */
  readonly certificateAuthorities: number;
  /** How many of them have a signing key loaded; without authorities there is none to miss (G-17.2). */
  readonly signingKeys: number;
}

/** What the responder answers from. Everything but `state` rejects while the database is away and nothing is remembered. */
export interface StatusSource {
  /** The authority that a CertID names by its hashes, of any algorithm; undefined when it is none of ours. */
  authority(nameHash: Uint8Array, keyHash: Uint8Array): Promise<Authority | undefined>;
  /** Asks the database, always: undefined for what was never issued. One round trip for all that are asked at a time. */
  states(questions: readonly Question[]): Promise<readonly (CertificateState | undefined)[]>;
  /** The newest signer that is valid now; undefined when there is none. Remembered. */
  signer(authorityId: string): Promise<Signer | undefined>;
  crl(authorityId: string): Promise<PublishedCrl | undefined>;
  /** The certificate of an authority, in DER. */
  certificate(authorityId: string): Promise<Uint8Array | undefined>;
  state(): Promise<ResponderState>;
}
