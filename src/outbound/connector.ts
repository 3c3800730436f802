import { once } from "node:events";
import { type BlockList, isIP, connect as netConnect, type Socket } from "node:net";
import { type ConnectionOptions, connect as tlsConnect } from "node:tls";
import { OutboundError } from "./outbound-error.ts";
import { type Address, resolveHost } from "./resolve-host.ts";
import { isSpecialAddress } from "./special-addresses.ts";
import { untilAborted } from "./until-aborted.ts";

export interface ConnectorOptions {
  /** Networks that are not public, and may be connected to all the same. */
  readonly allowed: BlockList;
  /** Asked once for each connection. */
  readonly resolve?: ((hostname: string) => Promise<readonly Address[]>) | undefined;
}

/** Of a certificate for others, Node tells all of the names, as many as somebody has put into it. */
const longestReason = 300;

interface To {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Left out for none. */
  readonly tls?: ConnectionOptions;
}

/**
 * Opens connections to hosts that others chose, which must not lead into private networks: a name is resolved once,
 * addresses that are not public are left out, and the connection is made to one of the others.
 */
export class Connector {
  readonly #allowed: BlockList;
  readonly #resolve: (hostname: string) => Promise<readonly Address[]>;

  constructor({ allowed, resolve = resolveHost }: ConnectorOptions) {
    this.#allowed = allowed;
    this.#resolve = resolve;
  }

  /** A connection over which nothing was sent yet. Rejects with an OutboundError, and also when `signal` is aborted. */
  async connect(to: To, signal: AbortSignal): Promise<Socket> {
    const socket = open(to, await untilAborted(signal, this.#permitted(to.host)));
    // Also what happens when nobody listens any more must not end the program.
    socket.on("error", () => {});
    try {
      await once(socket, to.tls === undefined ? "connect" : "secureConnect", { signal });
      return socket;
    } catch (error) {
      socket.destroy();
      throw unreachable(error);
    }
  }

  async #permitted(host: string): Promise<readonly Address[]> {
    const version = isIP(host);
    const addresses = version === 0 ? await this.#resolve(host) : [{ address: host, family: version }];
    const permitted = addresses.filter(({ address }) => !isSpecialAddress(address) || this.#isAllowed(address));
    if (permitted.length > 0) return permitted;
    throw new OutboundError("invalid", `${host} is at no address that may be sent to`, { unsent: true });
  }

  #isAllowed(address: string): boolean {
    const version = isIP(address);
    return version !== 0 && this.#allowed.check(address, version === 6 ? "ipv6" : "ipv4");
  }
}

/** To one of the addresses, of which the first that answers is taken. */
function open({ host, port, tls }: To, addresses: readonly Address[]): Socket {
  const to = {
    host,
    port,
    autoSelectFamily: true,
    // What was checked, whatever the name means by now.
    lookup: (_name: string, _options: object, done: (error: null, found: Address[]) => void) =>
      done(null, [...addresses]),
  };
  try {
    return tls === undefined ? netConnect(to) : tlsConnect({ ...to, ...tls });
  } catch (error) {
    // A port that is none, or certificate authorities that are none.
    throw new OutboundError("invalid", (error as Error).message, { unsent: true });
  }
}

function unreachable(error: unknown): OutboundError {
  const cause = error instanceof AggregateError ? (error.errors[0] as Error) : (error as Error);
  return new OutboundError("unreachable", cause.message.slice(0, longestReason), { unsent: true, cause });
}
