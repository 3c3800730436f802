import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto";

/** First byte of everything sealed; another format gets another number (kms-key.ts has 2). */
const formatVersion = 1;
const ivLength = 12;
const tagLength = 16;
const headLength = 1 + ivLength;
export const keyLength = 32;

/** Sealed bytes that do not open: another key, another place, or damage. Says nothing about what is inside. */
export class SealBroken extends Error {
  constructor(options?: ErrorOptions) {
    super("sealed data does not open with this key in this place", options);
  }
}

/** AES-256-GCM with a random 96-bit IV: version byte, IV, ciphertext, tag. `place` is authenticated, not stored (NIST SP 800-38D). */
export function encrypt(key: KeyObject, place: string, plaintext: Uint8Array): Buffer {
  const iv = randomBytes(ivLength);
  const cipher = createCipheriv("aes-256-gcm", key, iv, { authTagLength: tagLength });
  cipher.setAAD(Buffer.from(place));
  const sealed = Buffer.allocUnsafe(headLength + plaintext.length + tagLength);
  sealed[0] = formatVersion;
  iv.copy(sealed, 1);
  cipher.update(plaintext).copy(sealed, headLength);
  cipher.final();
  cipher.getAuthTag().copy(sealed, headLength + plaintext.length);
  return sealed;
}

/** Opens what `encrypt` made under the same key and place. Throws SealBroken. */
export function decrypt(key: KeyObject, place: string, sealed: Buffer): Buffer {
  if (sealed.length < headLength + tagLength || sealed[0] !== formatVersion) throw new SealBroken();
  const end = sealed.length - tagLength;
  // Without authTagLength node would also take a tag of 4 bytes.
  const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(1, headLength), { authTagLength: tagLength });
  decipher.setAAD(Buffer.from(place));
  decipher.setAuthTag(sealed.subarray(end));
  const plaintext = decipher.update(sealed.subarray(headLength, end));
  try {
    decipher.final();
  } catch (cause) {
    throw new SealBroken({ cause });
  }
  return plaintext;
}

/** A new random key, wrapped by `wrapping` for `place`. */
export function newKey(wrapping: KeyObject, place: string): { key: KeyObject; wrapped: Buffer } {
  const bytes = randomBytes(keyLength);
  const wrapped = encrypt(wrapping, place, bytes);
  const key = createSecretKey(bytes);
  bytes.fill(0);
  return { key, wrapped };
}

/** Opens a key that `newKey` wrapped. Throws SealBroken. */
export function unwrapKey(wrapping: KeyObject, place: string, wrapped: Buffer): KeyObject {
  const bytes = decrypt(wrapping, place, wrapped);
  const key = createSecretKey(bytes);
  bytes.fill(0);
  return key;
}
