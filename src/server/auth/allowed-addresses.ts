import { BlockList, isIP } from "node:net";
import { addNetwork } from "../../standards/networks.ts";
import { invalid } from "../errors.ts";

/** Refuses what is neither an address nor a network. */
export function checkAllowedIps(allowedIps: readonly string[]): void {
  const faults = allowedIps.flatMap((each, index) =>
    addNetwork(new BlockList(), each)
      ? []
      : [{ field: `allowed_ips[${index}]`, message: "must be an address or a network (CIDR)" }],
  );
  if (faults.length > 0) throw invalid(faults);
}

/** Whether an address is among `allowedIps`; an empty list allows all. */
export function addressCheck(allowedIps: readonly string[]): (address: string) => boolean {
  if (allowedIps.length === 0) return () => true;
  const networks = new BlockList();
  for (const each of allowedIps) addNetwork(networks, each);
  return (address) => isIP(address) !== 0 && networks.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}
