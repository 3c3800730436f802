import {
  type AuthorityDraft,
  type Issuer,
  issueIntermediate,
  issueLeaf,
  issueRoot,
  type LeafDraft,
  type Pointers,
} from "../../../src/standards/x509/certificates.ts";
import { type KeyKind, type KeyPair, newKeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { newSerialNumber } from "../../../src/standards/x509/serial-number.ts";

/** Authorities and certificates as tests want them: all is usual but what they say. */

export const noName = {
  commonName: "",
  organization: "",
  organizationalUnit: "",
  country: "",
  state: "",
  locality: "",
};
export const noNames = { dns: [], ip: [], email: [], uri: [] };

const usualKind: KeyKind = { algorithm: "ECDSA", size: 256 };
const dayMs = 86_400_000;

export const pointers: Pointers = {
  ocsp: "http://status.example.com",
  caIssuers: "http://status.example.com/ca/1.crt",
  crl: "http://status.example.com/crl/1.crl",
};

export interface Authority extends Issuer {
  readonly keys: KeyPair;
}

const usualDraft = () => ({
  serialNumber: newSerialNumber(),
  notBefore: new Date(Date.now() - 300_000),
  notAfter: new Date(Date.now() + 90 * dayMs),
});

export async function newRoot(draft: Partial<AuthorityDraft> = {}, kind = usualKind): Promise<Authority> {
  const keys = await newKeyPair(kind);
  const subject = { ...noName, commonName: "Root", organization: "Exämple", country: "DE" };
  const whole = { ...usualDraft(), ...keys, subject, maxPathLength: undefined, nameConstraints: undefined, ...draft };
  return { certificate: await issueRoot(whole, keys.privateKey), privateKey: keys.privateKey, keys };
}

export async function newIntermediate(
  issuer: Issuer,
  draft: Partial<AuthorityDraft> = {},
  kind = usualKind,
): Promise<Authority> {
  const keys = await newKeyPair(kind);
  const subject = { ...noName, commonName: "Intermediate" };
  const whole = { ...usualDraft(), ...keys, subject, maxPathLength: undefined, nameConstraints: undefined, ...draft };
  const certificate = await issueIntermediate(issuer, whole, pointers);
  return { certificate, privateKey: keys.privateKey, keys };
}

/** A certificate of www.example.com, unless the draft says something else. */
export async function newLeaf(issuer: Issuer, draft: Partial<LeafDraft> = {}): Promise<Buffer> {
  const publicKey = draft.publicKey ?? (await newKeyPair(usualKind)).publicKey;
  const subject = { ...noName, commonName: "www.example.com" };
  const alternativeNames = { ...noNames, dns: ["www.example.com"] };
  const whole: LeafDraft = { ...usualDraft(), publicKey, subject, alternativeNames, profile: "server", ...draft };
  return issueLeaf(issuer, whole, pointers);
}
