import { isIPv4, isIPv6 } from "node:net";

/** Addresses and networks of both versions, in octets as certificates hold them and in text. */

/** The 4 or 16 octets of an address in any notation; undefined for what is none, and for one with a zone. */
export function addressOctets(text: string): Buffer | undefined {
  if (isIPv4(text)) return octetsOfVersion4(text);
  return isIPv6(text) && !text.includes("%") ? octetsOfVersion6(text) : undefined;
}

const octetsOfVersion4 = (text: string) => Buffer.from(text.split(".").map(Number));

function octetsOfVersion6(text: string): Buffer {
  const [head = [], tail = []] = text.split("::").map(groupsOctets);
  return Buffer.concat([Buffer.from(head), Buffer.alloc(16 - head.length - tail.length), Buffer.from(tail)]);
}

/** Of groups between colons, of which the last one may be an address of version 4. */
function groupsOctets(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (group.includes(".")) return [...octetsOfVersion4(group)];
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}

/** An address of 4 or 16 octets in its shortest form (RFC 5952); undefined for any other number of them. */
export function addressText(octets: Buffer): string | undefined {
  if (octets.length === 4) return octets.join(".");
  if (octets.length !== 16) return undefined;
  const groups = Array.from({ length: 8 }, (_, index) => octets.readUInt16BE(2 * index).toString(16));
  // URLs write addresses as RFC 5952 has them.
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

const mappedPrefix = Buffer.from("00000000000000000000ffff", "hex");

/**
 * An address in its shortest form; undefined for what is none, and for one of version 4 as one of version 6 (RFC 4291 section
 * 2.5.5.2): that is not what people mean, and constraints on the former are not applied to the latter.
 */
export function canonicalAddress(text: string): string | undefined {
  const octets = addressOctets(text);
  const isMapped = octets?.length === 16 && octets.subarray(0, mappedPrefix.length).equals(mappedPrefix);
  return octets === undefined || isMapped ? undefined : addressText(octets);
}

/** All addresses that have the same first bits as `address`: those that are set in `mask`. */
export interface Network {
  readonly address: Buffer;
  readonly mask: Buffer;
  /** In CIDR notation (RFC 4632, RFC 4291), the address in its shortest form. */
  readonly text: string;
}

/** Reads a network in CIDR notation; a bare address is one of its own. Undefined when bits are set after the prefix. */
export function readNetwork(text: string): Network | undefined {
  const [start = "", length, ...rest] = text.split("/");
  const address = addressOctets(start);
  if (address === undefined || rest.length > 0 || !/^(0|[1-9]\d{0,2})$/.test(length ?? "0")) return undefined;
  const bits = address.length * 8;
  const prefix = length === undefined ? bits : Number(length);
  if (prefix > bits) return undefined;
  const mask = Buffer.from(address.map((_, index) => 0xff & (0xff00 >> Math.min(8, Math.max(0, prefix - 8 * index)))));
  if (address.some((octet, index) => (octet & ~(mask[index] as number)) !== 0)) return undefined;
  return { address, mask, text: `${addressText(address)}/${prefix}` };
}

export const isWithin = (octets: Buffer, { address, mask }: Network): boolean =>
  octets.length === address.length &&
  address.every((octet, index) => octet === ((octets[index] as number) & (mask[index] as number)));
