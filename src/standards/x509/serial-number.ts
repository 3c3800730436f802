import { randomBytes } from "node:crypto";

/**
 * A serial number of 159 random bits, in lower-case hexadecimal digits (RFC 5280 section 4.1.2.2). The first of them is
 * set, so that each takes twenty octets and none begins with zeros.
 */
export function newSerialNumber(): string {
  const octets = randomBytes(20);
  octets[0] = ((octets[0] as number) & 0x7f) | 0x40;
  return octets.toString("hex");
}
