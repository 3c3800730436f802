import type { KeyObject } from "node:crypto";

/** How a key signs: ECDSA with the SHA-2 of its curve's size, RSA by PKCS #1 v1.5 with SHA-256, Ed25519 by itself. */
export interface SigningAlgorithm {
  /** AlgorithmIdentifier in DER. */
  readonly identifier: Uint8Array;
  /** As node:crypto calls it; null for Ed25519, which hashes by itself and cannot sign in pieces. */
  readonly hash: string | null;
}

/** `key` is a private or a public key of a kind that keySizes lists. */
export function signingAlgorithmOf(key: KeyObject): SigningAlgorithm {
  throw new Error(`not yet ${key.type}`);
}

/** The signature of `bytes` as certificates hold it (for ECDSA in DER), made in libuv's pool. */
export function sign(privateKey: KeyObject, bytes: Uint8Array): Promise<Buffer> {
  throw new Error(`not yet ${privateKey.type} ${bytes.length}`);
}
