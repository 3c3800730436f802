import { lookup } from "node:dns/promises";
import { OutboundError } from "./outbound-error.ts";

/** An address, of version 4 or 6. */
export interface Address {
  readonly address: string;
  readonly family: number;
}

/** All addresses of a name, as this machine resolves it. Throws an OutboundError. */
export async function resolveHost(hostname: string): Promise<readonly Address[]> {
  try {
    return await lookup(hostname, { all: true });
  } catch (error) {
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw new OutboundError("unreachable", `${hostname} cannot be resolved (${code})`, { unsent: true, cause: error });
  }
}
