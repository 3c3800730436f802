import { createPrivateKey, createPublicKey, diffieHellman } from "node:crypto";
import { promisify } from "node:util";
import { type Group, IllegalParameter } from "../../standards/srp.ts";

const inThreadPool = promisify(diffieHellman);

/**
 * base^exponent mod N in the constant time of OpenSSL and in the thread pool: a Diffie-Hellman agreement of the private
 * key `exponent` with the public key `base`. Throws IllegalParameter for bases that OpenSSL refuses: 0, 1, N - 1 and above.
 */
export async function opensslPower(base: bigint, exponent: bigint, group: Group): Promise<bigint> {
  if (base <= 1n || base >= group.prime - 1n) throw new IllegalParameter("the base of the power is out of range");
  // Keys as DER: createDiffieHellman() would test for more than a second whether N is prime.
  const privateKey = createPrivateKey({ key: privateKeyInfo(exponent, group), format: "der", type: "pkcs8" });
  const publicKey = createPublicKey({ key: subjectPublicKeyInfo(base, group), format: "der", type: "spki" });
  const power = await inThreadPool({ privateKey, publicKey });
  return BigInt(`0x${power.toString("hex")}`);
}

/** RFC 5208, section 5 */
const privateKeyInfo = (exponent: bigint, group: Group) =>
  sequence(integer(0n), dhAlgorithm(group), der(tags.octetString, integer(exponent)));

/** RFC 5280, section 4.1 */
const subjectPublicKeyInfo = (base: bigint, group: Group) =>
  sequence(dhAlgorithm(group), der(tags.bitString, Buffer.of(0), integer(base)));

/** dhKeyAgreement with its parameters (PKCS #3, section 9) */
const dhAlgorithm = ({ prime, generator }: Group) =>
  sequence(der(tags.objectIdentifier, dhKeyAgreement), sequence(integer(prime), integer(generator)));

/** 1.2.840.113549.1.3.1 */
const dhKeyAgreement = Buffer.from("2a864886f70d010301", "hex");

const tags = { integer: 0x02, bitString: 0x03, octetString: 0x04, objectIdentifier: 0x06, sequence: 0x30 } as const;

const sequence = (...elements: Buffer[]) => der(tags.sequence, ...elements);

/** An even number of digits, and a leading zero byte where the highest bit would read as a sign. */
function integer(value: bigint): Buffer {
  const digits = value.toString(16);
  const bytes = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex");
  return der(tags.integer, (bytes[0] ?? 0) < 0x80 ? bytes : Buffer.concat([Buffer.of(0), bytes]));
}

function der(tag: number, ...contents: Buffer[]): Buffer {
  const length = contents.reduce((sum, content) => sum + content.length, 0);
  const long = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...long), ...contents]);
}
