/**
 * The steps of an SRP-6a login (RFC 5054), which proves that the client knows the password and the server its verifier,
 * and shows neither. Runs in Node and in browsers. Keys, salts, verifiers and proofs are bytes, integers big-endian.
 * A username is given in lower case, as it went into the verifier (G-9.3); a password as it was typed.
 */

import {
  bigintPower,
  clientSecret,
  type Group,
  hash,
  join,
  type Power,
  pad,
  passwordKey,
  serverPublicKey,
  serverSecret,
  toBytes,
  toInteger,
  utf8,
} from "./srp-formulas.ts";

export { bigintPower, type Group, type Power, rfc5054Group3072 } from "./srp-formulas.ts";

/** A value that no honest side sends, after which the login must end (RFC 5054, sections 2.5.3 and 2.5.4). */
export class IllegalParameter extends Error {}

/** Bytes in the salts that our clients make; the server makes up salts of the same length for who does not exist. */
export const saltLength = 32;

/** The keys of one side, for one login only. */
export interface KeyPair {
  /** a or b, 256 random bits. */
  readonly privateKey: Uint8Array;
  /** A or B, with leading zeros to the length of N. */
  readonly publicKey: Uint8Array;
}

export interface Proofs {
  /** M1, which the client sends first. */
  readonly clientProof: Uint8Array;
  /** M2, which only a server that knows the verifier can answer. */
  readonly serverProof: Uint8Array;
}

/** What a server keeps of a password: v = g^x mod N (RFC 5054, section 2.4). */
export async function verifierFor(group: Group, salt: Uint8Array, username: string, password: string) {
  const x = await passwordKey(group, salt, username, password);
  return pad(group, bigintPower(group.generator, x, group));
}

/** Whether a password can have this verifier. With 0, 1 or N - 1 anybody could log in. */
export function isVerifier(group: Group, verifier: Uint8Array): boolean {
  const v = toInteger(verifier);
  return 1n < v && v < group.prime - 1n;
}

/** The client's keys: A = g^a mod N (RFC 5054, section 2.5.4). */
export function clientKeys(group: Group, privateKey = newPrivateKey()): KeyPair {
  return { privateKey, publicKey: pad(group, bigintPower(group.generator, toInteger(privateKey), group)) };
}

/** The server's keys: B = (k v + g^b) mod N (RFC 5054, section 2.5.3). */
export async function serverKeys(group: Group, verifier: Uint8Array, power: Power, privateKey = newPrivateKey()) {
  const B = await serverPublicKey(group, toInteger(verifier), toInteger(privateKey), power);
  return { privateKey, publicKey: pad(group, B) };
}

export interface ClientLogin {
  readonly group: Group;
  readonly username: string;
  readonly password: string;
  readonly salt: Uint8Array;
  readonly keys: KeyPair;
  readonly serverPublicKey: Uint8Array;
}

/** The proof to send and the one to expect. Throws IllegalParameter when the server's public key is 0 or not below N. */
export async function proveLogin(login: ClientLogin): Promise<Proofs> {
  const { group, username, salt } = login;
  const A = toInteger(login.keys.publicKey);
  const B = toInteger(login.serverPublicKey);
  if (!isPublicKey(group, B)) throw new IllegalParameter("the server's public key is out of range");
  const x = await passwordKey(group, salt, username, login.password);
  const S = await clientSecret(group, toInteger(login.keys.privateKey), x, A, B, bigintPower);
  const [documented] = await proofForms({ group, username, salt, A, B, S });
  const clientProof = await clientProofOf(group, documented);
  return { clientProof, serverProof: await serverProofOf(group, documented, clientProof) };
}

export interface ServerLogin {
  readonly group: Group;
  readonly username: string;
  readonly salt: Uint8Array;
  readonly verifier: Uint8Array;
  /** Of this login only: a second try with the same keys must be refused before it comes here. */
  readonly keys: KeyPair;
  readonly clientPublicKey: Uint8Array;
  readonly clientProof: Uint8Array;
}

/** The server's proof; undefined when the client's proof is wrong or its public key is 0 mod N or not below N. */
export async function verifyLogin(login: ServerLogin, power: Power): Promise<Uint8Array | undefined> {
  const { group, username, salt } = login;
  const A = toInteger(login.clientPublicKey);
  const B = toInteger(login.keys.publicKey);
  if (!isPublicKey(group, A)) return undefined;
  const b = toInteger(login.keys.privateKey);
  const S = await serverSecret(group, b, toInteger(login.verifier), A, B, power);
  for (const form of await proofForms({ group, username, salt, A, B, S })) {
    const expected = await clientProofOf(group, form);
    if (isSameProof(expected, login.clientProof)) return serverProofOf(group, form, expected);
  }
  return undefined;
}

/** Compares whole proofs, in a time that does not tell how much of them is right. */
export function isSameProof(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  return one.reduce((difference, byte, at) => difference | (byte ^ (other[at] ?? 0)), 0) === 0;
}

interface Exchange {
  readonly group: Group;
  readonly username: string;
  readonly salt: Uint8Array;
  readonly A: bigint;
  readonly B: bigint;
  readonly S: bigint;
}

/** What goes into the proofs: M1 = H(preamble | A | B | secret), M2 = H(A | M1 | secret). */
interface ProofForm {
  readonly preamble: Uint8Array;
  readonly A: Uint8Array;
  readonly B: Uint8Array;
  readonly secret: Uint8Array;
}

type ProofForms = readonly [documented: ProofForm, ...others: ProofForm[]];

/**
 * The form of G-9.1 comes first: RFC 2945, section 3, with K = H(PAD(S)). Then what other libraries make: H(PAD(g)) for
 * H(g), no preamble, no preamble and S for K; and all four with integers unpadded.
 */
async function proofForms({ group, username, salt, A, B, S }: Exchange): Promise<ProofForms> {
  const padded = (integer: bigint) => pad(group, integer);
  const hashedPrime = await hash(group, toBytes(group.prime));
  const hashedUsername = await hash(group, utf8(username));
  const preamble = async (generator: Uint8Array) =>
    join(xor(hashedPrime, await hash(group, generator)), hashedUsername, salt);
  const documented = await preamble(toBytes(group.generator));
  const paddedGenerator = await preamble(padded(group.generator));
  const none = new Uint8Array();
  const K = await hash(group, padded(S));
  const forms = (encode: (integer: bigint) => Uint8Array): ProofForms => {
    const keys = { A: encode(A), B: encode(B) };
    return [
      { preamble: documented, ...keys, secret: K },
      { preamble: paddedGenerator, ...keys, secret: K },
      { preamble: none, ...keys, secret: K },
      { preamble: none, ...keys, secret: encode(S) },
    ];
  };
  return [...forms(padded), ...forms(toBytes)];
}

const clientProofOf = (group: Group, { preamble, A, B, secret }: ProofForm) => hash(group, preamble, A, B, secret);

const serverProofOf = (group: Group, { A, secret }: ProofForm, clientProof: Uint8Array) =>
  hash(group, A, clientProof, secret);

const isPublicKey = ({ prime }: Group, key: bigint) => 0n < key && key < prime;

const newPrivateKey = () => crypto.getRandomValues(new Uint8Array(32));

const xor = (one: Uint8Array, other: Uint8Array) => one.map((byte, at) => byte ^ (other[at] ?? 0));
