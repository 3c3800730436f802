import { createPublicKey, type KeyObject, randomBytes } from "node:crypto";

/** A public key with a modulus of so many bits that nobody knows the factors of: made in no time, and good for nothing. */
export function rsaPublicKey(bits: number, exponent = Buffer.of(1, 0, 1)): KeyObject {
  const modulus = randomBytes(Math.ceil(bits / 8));
  const first = (bits - 1) % 8;
  modulus[0] = ((modulus[0] as number) & ((1 << first) - 1)) | (1 << first);
  modulus[modulus.length - 1] = (modulus.at(-1) as number) | 1;
  const jwk = { kty: "RSA", n: modulus.toString("base64url"), e: exponent.toString("base64url") };
  return createPublicKey({ key: jwk, format: "jwk" });
}
