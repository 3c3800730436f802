import { BlockList } from "node:net";
import type { Address } from "../../src/outbound/resolve-host.ts";

/** The addresses of this machine, which tests send to. */
export const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** A resolver that gives one answer after the other, the last one again and again, and notes what it was asked. */
export function resolving(...answers: readonly (readonly string[])[]) {
  const asked: string[] = [];
  const resolve = async (hostname: string): Promise<Address[]> => {
    asked.push(hostname);
    const addresses = answers[Math.min(asked.length, answers.length) - 1] ?? [];
    return addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };
  return { asked, resolve };
}
