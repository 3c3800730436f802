import type { KeyObject } from "node:crypto";

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

/** Makes a key pair, in libuv's pool. */
export function newKeyPair(kind: KeyKind): Promise<KeyPair> {
  throw new Error(`not yet ${kind.algorithm}`);
}

/** Throws UnsupportedKey for RSA below 2048 or above 4096 bits or with a strange exponent, and for other curves. */
export function kindOf(publicKey: KeyObject): KeyKind {
  throw new Error(`not yet ${publicKey.type}`);
}
