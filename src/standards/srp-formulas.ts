/**
 * The values of SRP-6a (RFC 5054, section 2) in its own notation: `|` joins bytes, PAD(n) is the integer n big-endian with
 * leading zeros to the length of N, H is the hash of the group.
 */

/** What both sides must agree on before the first login: a group of RFC 5054, appendix A, and the hash used with it. */
export interface Group {
  readonly name: string;
  /** N, a safe prime. */
  readonly prime: bigint;
  /** g */
  readonly generator: bigint;
  /** Length of N in bytes. */
  readonly length: number;
  readonly hash: "SHA-1" | "SHA-256";
}

/** The group of every new verifier (G-9.1). The prime is also group 15 of RFC 3526, there with another generator. */
export const rfc5054Group3072: Group = {
  name: "rfc5054-3072",
  prime: BigInt(
    `0x${[
      "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd",
      "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed",
      "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f",
      "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b",
      "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510",
      "15728e5a8aaac42dad33170d04507a33a85521abdf1cba64ecfb850458dbef0a8aea71575d060c7db3970f85a6e1e4c7",
      "abf5ae8cdb0933d71e8c94e04a25619dcee3d2261ad2ee6bf12ffa06d98a0864d87602733ec86a64521f2b18177b200c",
      "bbe117577a615d6c770988c0bad946e208e24fa074e5ab3143db5bfce0fd108e4b82d120a93ad2caffffffffffffffff",
    ].join("")}`,
  ),
  generator: 5n,
  length: 384,
  hash: "SHA-256",
};

/** base^exponent mod N, for 0 <= base < N. */
export type Power = (base: bigint, exponent: bigint, group: Group) => bigint | Promise<bigint>;

/** A power for clients. How long it takes depends on the exponent, which is not for a server to show. */
export function bigintPower(base: bigint, exponent: bigint, { prime }: Group): bigint {
  let power = 1n;
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) power = (power * square) % prime;
    square = (square * square) % prime;
  }
  return power;
}

/** k = H(N | PAD(g)) */
export async function multiplier(group: Group): Promise<bigint> {
  return toInteger(await hash(group, toBytes(group.prime), pad(group, group.generator)));
}

/** x = H(s | H(I | ":" | P)): the password, as the exponent of its verifier. */
export async function passwordKey(group: Group, salt: Uint8Array, username: string, password: string): Promise<bigint> {
  return toInteger(await hash(group, salt, await hash(group, utf8(`${username}:${password}`))));
}

/** u = H(PAD(A) | PAD(B)) */
export async function scrambler(group: Group, A: bigint, B: bigint): Promise<bigint> {
  return toInteger(await hash(group, pad(group, A), pad(group, B)));
}

/** B = (k v + g^b) mod N */
export async function serverPublicKey(group: Group, v: bigint, b: bigint, power: Power): Promise<bigint> {
  const k = await multiplier(group);
  return (k * v + (await power(group.generator, b, group))) % group.prime;
}

/** S = (B - k g^x)^(a + u x) mod N, the premaster secret as the client computes it. */
export async function clientSecret(group: Group, a: bigint, x: bigint, A: bigint, B: bigint, power: Power) {
  const k = await multiplier(group);
  const u = await scrambler(group, A, B);
  const difference = (B - k * (await power(group.generator, x, group))) % group.prime;
  return power(difference < 0n ? difference + group.prime : difference, a + u * x, group);
}

/** S = (A v^u)^b mod N, the premaster secret as the server computes it. */
export async function serverSecret(group: Group, b: bigint, v: bigint, A: bigint, B: bigint, power: Power) {
  const u = await scrambler(group, A, B);
  return power((A * (await power(v, u, group))) % group.prime, b, group);
}

/** H of `parts`, joined. */
export async function hash({ hash }: Group, ...parts: Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest(hash, join(...parts)));
}

/** PAD(integer) */
export const pad = ({ length }: Group, integer: bigint): Uint8Array => toBytes(integer, length);

/** Big-endian, in as few bytes as it takes or in `length`. */
export function toBytes(integer: bigint, length = 0): Uint8Array {
  const digits = integer.toString(16);
  const hex = digits.padStart(Math.max(2 * length, digits.length + (digits.length % 2)), "0");
  return Uint8Array.from({ length: hex.length / 2 }, (_, at) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16));
}

/** Of big-endian bytes; of none it is 0. */
export function toInteger(bytes: Uint8Array): bigint {
  return BigInt(`0x0${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`);
}

export const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

export function join(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
