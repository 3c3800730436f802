import { constants, type KeyObject, verify } from "node:crypto";
import { id_ecdsaWithSHA256, id_ecdsaWithSHA384, id_ecdsaWithSHA512 } from "@peculiar/asn1-ecc";
import {
  id_mgf1,
  id_RSASSA_PSS,
  id_sha256,
  id_sha256WithRSAEncryption,
  id_sha384,
  id_sha384WithRSAEncryption,
  id_sha512,
  id_sha512WithRSAEncryption,
} from "@peculiar/asn1-rsa";
import { contextTag, DerReader, oid, sequence, tags, tlv } from "../der.ts";
import { id_Ed25519 } from "./key-pairs.ts";

/** A signature algorithm as verify takes it. */
interface Scheme {
  readonly keyType: "rsa" | "ec" | "ed25519";
  /** As node:crypto calls it; null for Ed25519. */
  readonly hash: string | null;
  /** In octets, for RSASSA-PSS only. */
  readonly saltLength?: number;
}

/** An AlgorithmIdentifier that says no more than an algorithm: parameters are NULL or absent (RFC 4055 section 2.1). */
const plainIdentifiers = (id: string) => [sequence(oid(id), tlv(tags.null)), sequence(oid(id))];

const ecdsa = (id: string, hash: string) => ({
  identifier: sequence(oid(id)),
  scheme: { keyType: "ec", hash } as const,
});

const pkcs1 = (id: string, hash: string) =>
  plainIdentifiers(id).map((identifier) => ({ identifier, scheme: { keyType: "rsa", hash } as const }));

/** All but RSASSA-PSS, which has parameters. SHA-1 and older are not among them. */
const schemes: readonly { readonly identifier: Buffer; readonly scheme: Scheme }[] = [
  ...pkcs1(id_sha256WithRSAEncryption, "sha256"),
  ...pkcs1(id_sha384WithRSAEncryption, "sha384"),
  ...pkcs1(id_sha512WithRSAEncryption, "sha512"),
  ecdsa(id_ecdsaWithSHA256, "sha256"),
  ecdsa(id_ecdsaWithSHA384, "sha384"),
  ecdsa(id_ecdsaWithSHA512, "sha512"),
  { identifier: sequence(oid(id_Ed25519)), scheme: { keyType: "ed25519", hash: null } },
];

const hashes: readonly { readonly identifier: Buffer; readonly hash: string }[] = [
  ...plainIdentifiers(id_sha256).map((identifier) => ({ identifier, hash: "sha256" })),
  ...plainIdentifiers(id_sha384).map((identifier) => ({ identifier, hash: "sha384" })),
  ...plainIdentifiers(id_sha512).map((identifier) => ({ identifier, hash: "sha512" })),
];

const pss = oid(id_RSASSA_PSS);
const mgf1 = oid(id_mgf1);

/** The algorithm that an AlgorithmIdentifier in DER names; undefined for those that requests may not be signed with. */
export function signatureScheme(identifier: Buffer): Scheme | undefined {
  const known = schemes.find((each) => each.identifier.equals(identifier));
  if (known !== undefined) return known.scheme;
  const fields = new DerReader(identifier).inside(tags.sequence);
  return fields.value().equals(pss) ? pssScheme(fields) : undefined;
}

/** RSASSA-PSS-params (RFC 4055 section 3.1). A hash that is left out there means SHA-1. */
function pssScheme(identifier: DerReader): Scheme | undefined {
  const parameters = identifier.inside(tags.sequence);
  const hash = parameters.isNext(contextTag(0)) ? hashOf(parameters.inside(contextTag(0)).value()) : undefined;
  const maskHash = parameters.isNext(contextTag(1)) ? maskHashOf(parameters.inside(contextTag(1))) : undefined;
  const saltLength = parameters.isNext(contextTag(2)) ? lengthOf(parameters.inside(contextTag(2)).integer()) : 20;
  parameters.end();
  if (hash === undefined || maskHash !== hash || saltLength === undefined) return undefined;
  return { keyType: "rsa", hash, saltLength };
}

/** The hash of a mask generation function, of which there is one. */
function maskHashOf(mask: DerReader): string | undefined {
  const fields = mask.inside(tags.sequence);
  return fields.value().equals(mgf1) ? hashOf(fields.value()) : undefined;
}

/** Numbers below zero are orders to node:crypto, and no key has room for 2^15 octets. */
function lengthOf(octets: Buffer): number | undefined {
  const length = octets.length > 2 ? -1 : octets.readIntBE(0, octets.length);
  return length < 0 ? undefined : length;
}

const hashOf = (identifier: Buffer) => hashes.find((each) => each.identifier.equals(identifier))?.hash;

/** Whether the holder of the key's other half has signed `bytes`. */
export function isSignedBy(publicKey: KeyObject, scheme: Scheme, bytes: Uint8Array, signature: Uint8Array): boolean {
  const { keyType, hash, saltLength } = scheme;
  if (publicKey.asymmetricKeyType !== keyType) return false;
  const padding = saltLength === undefined ? {} : { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength };
  try {
    return verify(hash, bytes, { key: publicKey, ...padding }, signature);
  } catch {
    // OpenSSL calls some wrong signatures an error, such as those that are too long.
    return false;
  }
}
