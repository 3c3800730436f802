import { type BlockList, isIP } from "node:net";

/** Adds an address or a network in CIDR notation (RFC 4632, RFC 4291) to `networks`; false when the text is neither. */
export function addNetwork(networks: BlockList, text: string): boolean {
  const [address = "", prefix, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  const family = version === 6 ? "ipv6" : "ipv4";
  if (prefix === undefined) {
    networks.addAddress(address, family);
    return true;
  }
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > (version === 6 ? 128 : 32)) return false;
  networks.addSubnet(address, Number(prefix), family);
  return true;
}
