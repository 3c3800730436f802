import { type KeyObject, sign as signBytes } from "node:crypto";
import { promisify } from "node:util";
import { id_ecdsaWithSHA256, id_ecdsaWithSHA384, id_ecdsaWithSHA512 } from "@peculiar/asn1-ecc";
import { id_sha256WithRSAEncryption } from "@peculiar/asn1-rsa";
import { oid, sequence, tags, tlv } from "../der.ts";
import { id_Ed25519 } from "./key-pairs.ts";

/** How a key signs: ECDSA with the SHA-2 of its curve's size, RSA by PKCS #1 v1.5 with SHA-256, Ed25519 by itself. */
export interface SigningAlgorithm {
  /** AlgorithmIdentifier in DER. */
  readonly identifier: Uint8Array;
  /** As node:crypto calls it; null for Ed25519, which hashes by itself and cannot sign in pieces. */
  readonly hash: string | null;
}

/** Parameters are NULL for RSA (RFC 4055 section 5), absent for others (RFC 5758 section 3.2, RFC 8410 section 3). */
const algorithms: Readonly<Record<string, SigningAlgorithm>> = {
  rsa: { identifier: sequence(oid(id_sha256WithRSAEncryption), tlv(tags.null)), hash: "sha256" },
  prime256v1: { identifier: sequence(oid(id_ecdsaWithSHA256)), hash: "sha256" },
  secp384r1: { identifier: sequence(oid(id_ecdsaWithSHA384)), hash: "sha384" },
  secp521r1: { identifier: sequence(oid(id_ecdsaWithSHA512)), hash: "sha512" },
  ed25519: { identifier: sequence(oid(id_Ed25519)), hash: null },
};

/** `key` is a private or a public key of a kind that keySizes lists. */
export function signingAlgorithmOf(key: KeyObject): SigningAlgorithm {
  const algorithm = algorithms[key.asymmetricKeyDetails?.namedCurve ?? key.asymmetricKeyType ?? ""];
  if (algorithm === undefined) throw new RangeError(`nothing is signed by keys of type ${key.asymmetricKeyType} here`);
  return algorithm;
}

const signInPool = promisify(signBytes);

/** The signature of `bytes` as certificates hold it (for ECDSA in DER), made in libuv's pool. */
export function sign(privateKey: KeyObject, bytes: Uint8Array): Promise<Buffer> {
  return signInPool(signingAlgorithmOf(privateKey).hash, bytes, privateKey);
}
