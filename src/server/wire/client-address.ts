import type { BlockList } from "node:net";
import { isIP } from "node:net";

/** The client's address: the socket's, or behind trusted proxies the right-most hop that is not one (G-11.4). */
export function clientAddress(socketAddress: string, forwardedFor: string | undefined, trusted: BlockList): string {
  let address = plain(socketAddress);
  if (forwardedFor === undefined || !isTrusted(address, trusted)) return address;
  for (const hop of forwardedFor.split(",").reverse()) {
    const next = plain(hop.trim());
    if (isIP(next) === 0) return address;
    address = next;
    if (!isTrusted(address, trusted)) return address;
  }
  return address;
}

/** What an address is counted under: itself, or its /64 for IPv6. */
export function addressKey(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  if (tail !== undefined) {
    const after = tail === "" ? [] : tail.split(":");
    while (groups.length + after.length < 8) groups.push("0");
    groups.push(...after);
  }
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}

const plain = (address: string) =>
  address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;

const isTrusted = (address: string, trusted: BlockList) =>
  trusted.rules.length > 0 && trusted.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
