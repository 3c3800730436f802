import { createPublicKey, generateKeyPair, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { id_ecPublicKey, id_secp256r1, id_secp384r1, id_secp521r1 } from "@peculiar/asn1-ecc";
import { id_rsaEncryption } from "@peculiar/asn1-rsa";
import { bitString, DerReader, oid, sequence, tags, tlv } from "../der.ts";

export type KeyAlgorithm = "RSA" | "ECDSA" | "Ed25519";

/** What kind of key: the size is in bits, of the modulus for RSA, of the field for curves (Ed25519: 256). */
export interface KeyKind {
  readonly algorithm: KeyAlgorithm;
  readonly size: number;
}

export interface KeyPair {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** A public key that nobody here issues certificates for; the message says why, and nothing of the key. */
export class UnsupportedKey extends Error {}

/** The sizes that go with each algorithm; the first one is the usual one. */
export const keySizes: Readonly<Record<KeyAlgorithm, readonly number[]>> = {
  RSA: [2048, 3072, 4096],
  ECDSA: [256, 384, 521],
  Ed25519: [256],
};

/** id-Ed25519, of keys and of signatures (RFC 8410 section 3). */
export const id_Ed25519 = "1.3.101.112";

/** The curves by their names in node:crypto, with the octets of a coordinate (RFC 5480 section 2.1.1.1). */
const curves: Readonly<Record<string, { id: string; size: number; octets: number }>> = {
  prime256v1: { id: id_secp256r1, size: 256, octets: 32 },
  secp384r1: { id: id_secp384r1, size: 384, octets: 48 },
  secp521r1: { id: id_secp521r1, size: 521, octets: 66 },
};

/** AlgorithmIdentifier, in DER, of the keys that are read. */
const algorithms = [
  sequence(oid(id_rsaEncryption), tlv(tags.null)),
  sequence(oid(id_Ed25519)),
  ...Object.values(curves).map(({ id }) => sequence(oid(id_ecPublicKey), oid(id))),
];

const generate = promisify(generateKeyPair);

/** Makes a key pair, in libuv's pool. */
export async function newKeyPair({ algorithm, size }: KeyKind): Promise<KeyPair> {
  if (!keySizes[algorithm].includes(size)) throw new RangeError(`there are no ${algorithm} keys of ${size} bits here`);
  if (algorithm === "RSA") return generate("rsa", { modulusLength: size });
  return algorithm === "ECDSA" ? generate("ec", { namedCurve: `P-${size}` }) : generate("ed25519");
}

/** Throws UnsupportedKey for RSA below 2048 or above 4096 bits or with a strange exponent, and for other curves. */
export function kindOf(publicKey: KeyObject): KeyKind {
  switch (publicKey.asymmetricKeyType) {
    case "rsa":
      return kindOfRsa(publicKey);
    case "ec":
      return kindOfCurve(publicKey);
    case "ed25519":
      return { algorithm: "Ed25519", size: 256 };
    default:
      throw new UnsupportedKey(otherKey);
  }
}

/** Reads a SubjectPublicKeyInfo in DER. Throws UnsupportedKey for what kindOf refuses, and for what is no such thing. */
export function readPublicKey(info: Uint8Array): { publicKey: KeyObject; kind: KeyKind } {
  const algorithm = new DerReader(info).inside(tags.sequence).value();
  // Before OpenSSL sees it: curves that a sender has thought up take their time there.
  if (!algorithms.some((known) => known.equals(algorithm))) throw new UnsupportedKey(otherKey);
  const publicKey = decodePublicKey(info);
  return { publicKey, kind: kindOf(publicKey) };
}

const otherKey = "the key must be RSA, Ed25519, or on the curve P-256, P-384 or P-521";

function decodePublicKey(info: Uint8Array): KeyObject {
  try {
    return createPublicKey({ key: Buffer.from(info), format: "der", type: "spki" });
  } catch {
    throw new UnsupportedKey("the key cannot be read");
  }
}

function kindOfRsa(publicKey: KeyObject): KeyKind {
  const { modulusLength: size = 0, publicExponent: exponent = 0n } = publicKey.asymmetricKeyDetails ?? {};
  if (size < 2048 || size > 4096) throw new UnsupportedKey("an RSA key must have 2048 to 4096 bits");
  // The range of FIPS 186-5 section 5.4.
  if (exponent % 2n === 0n || exponent < 65_537n || exponent >= 1n << 256n) {
    throw new UnsupportedKey("the exponent of an RSA key must be odd, 65537 or more, and below 2^256");
  }
  return { algorithm: "RSA", size };
}

function kindOfCurve(publicKey: KeyObject): KeyKind {
  const curve = curves[publicKey.asymmetricKeyDetails?.namedCurve ?? ""];
  if (curve === undefined) throw new UnsupportedKey(otherKey);
  const { id, size, octets } = curve;
  const point = Buffer.concat([Buffer.of(uncompressed), Buffer.alloc(2 * octets)]);
  const usual = sequence(sequence(oid(id_ecPublicKey), oid(id)), bitString(point)).subarray(0, -2 * octets);
  // A certificate holds the key as it was given. Not all software reads compressed points or curves that are spelled out.
  if (!publicKey.export({ format: "der", type: "spki" }).subarray(0, usual.length).equals(usual)) {
    throw new UnsupportedKey("a key on a curve must name the curve, and its point must not be compressed");
  }
  return { algorithm: "ECDSA", size };
}

/** The first octet of a point of which both coordinates are given (SEC 1 section 2.3.3). */
const uncompressed = 0x04;
