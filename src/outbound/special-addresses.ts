import { BlockList, isIP } from "node:net";

/** Networks that are not the public Internet (IANA IPv4 Special-Purpose Address Registry, RFC 6890, RFC 5771). */
const ipv4Networks: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
  // Looks public, and answers every machine of Azure with what is only for that machine.
  ["168.63.129.16", 32],
];

/** The same of IPv6, as far as they lie within what is global unicast (IANA IPv6 Special-Purpose Address Registry). */
const ipv6Networks: readonly (readonly [string, number])[] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  // 6to4: an IPv4 address, whichever.
  ["2002::", 16],
  ["3fff::", 20],
];

const special = new BlockList();
const globalUnicast = new BlockList();
globalUnicast.addSubnet("2000::", 3, "ipv6");
// NAT64 (RFC 6052): the way from a network without IPv4 to the IPv4 address in its last 32 bits.
globalUnicast.addSubnet("64:ff9b::", 96, "ipv6");
for (const [network, prefix] of ipv4Networks) {
  special.addSubnet(network, prefix, "ipv4");
  special.addSubnet(`64:ff9b::${network}`, 96 + prefix, "ipv6");
}
for (const [network, prefix] of ipv6Networks) special.addSubnet(network, prefix, "ipv6");

/** Whether an address belongs to this machine, to a private network, or to no single machine; also of a text that is none. */
export function isSpecialAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 4) return special.check(address, "ipv4");
  return version === 0 || !globalUnicast.check(address, "ipv6") || special.check(address, "ipv6");
}
