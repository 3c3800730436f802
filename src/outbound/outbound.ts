import { addAbortListener, once } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";
import { type BlockList, isIP, connect as netConnect, type Socket } from "node:net";
import { getCACertificates, connect as tlsConnect } from "node:tls";
import { checkHeaders, exchange, type OutboundAnswer, unreachable } from "./exchange.ts";
import { OutboundError } from "./outbound-error.ts";
import { type Address, resolveHost } from "./resolve-host.ts";
import { isSpecialAddress } from "./special-addresses.ts";

interface OutboundOptions {
  /** Networks that are not public, and may be sent to all the same. */
  readonly allowed: BlockList;
  /** In PEM, trusted beside those that Node trusts. */
  readonly certificateAuthorities?: string | undefined;
  /** Asked once for each request. */
  readonly resolve?: (hostname: string) => Promise<readonly Address[]>;
}

interface OutboundRequest {
  readonly headers: OutgoingHttpHeaders;
  readonly body: string;
  /** For all of it, from the name's resolution to the end of the answer. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called when there is a connection and nothing was sent; what it throws ends the request. */
  readonly beforeSending?: () => void;
}

/**
 * Sends requests to URLs that others chose, which must not lead into private networks: a name is resolved once, addresses
 * that are not public are left out, and the connection is made to one of the others. Redirects are not followed, proxies
 * not used, and certificates verified.
 */
export class Outbound {
  readonly #allowed: BlockList;
  readonly #authorities: string[] | undefined;
  readonly #resolve: (hostname: string) => Promise<readonly Address[]>;

  constructor({ allowed, certificateAuthorities, resolve = resolveHost }: OutboundOptions) {
    this.#allowed = allowed;
    this.#authorities =
      certificateAuthorities === undefined ? undefined : [...getCACertificates("default"), certificateAuthorities];
    this.#resolve = resolve;
  }

  /** Answers whatever status comes. Throws an OutboundError when none does, and what `signal` is aborted with. */
  async post(text: string, request: OutboundRequest): Promise<OutboundAnswer> {
    const url = parseUrl(text);
    checkHeaders(request.headers);
    const timeout = AbortSignal.timeout(request.timeoutMs);
    const signal = AbortSignal.any([request.signal, timeout]);
    try {
      const addresses = await aborting(signal, this.#permitted(hostOf(url)));
      return await this.#send(url, addresses, request, signal);
    } catch (error) {
      request.signal.throwIfAborted();
      if (timeout.aborted) throw new OutboundError(`no answer within ${request.timeoutMs / 1000} s`);
      throw error;
    }
  }

  async #permitted(host: string): Promise<readonly Address[]> {
    const version = isIP(host);
    const addresses = version === 0 ? await this.#resolve(host) : [{ address: host, family: version }];
    const permitted = addresses.filter(({ address }) => !isSpecialAddress(address) || this.#isAllowed(address));
    if (permitted.length > 0) return permitted;
    throw new OutboundError(`${host} is at no address that may be sent to`, { permanent: true });
  }

  #isAllowed(address: string): boolean {
    const version = isIP(address);
    return version !== 0 && this.#allowed.check(address, version === 6 ? "ipv6" : "ipv4");
  }

  async #send(url: URL, addresses: readonly Address[], request: OutboundRequest, signal: AbortSignal) {
    const socket = this.#connect(url, addresses);
    // Also what happens when nobody listens any more must not end the program.
    socket.on("error", () => {});
    using _ = addAbortListener(signal, () => socket.destroy());
    try {
      await once(socket, url.protocol === "https:" ? "secureConnect" : "connect", { signal }).catch(unreachable);
      request.beforeSending?.();
      return await exchange(socket, url, request);
    } finally {
      socket.destroy();
    }
  }

  /** To one of the addresses, of which the first that answers is taken. */
  #connect(url: URL, addresses: readonly Address[]): Socket {
    const isTls = url.protocol === "https:";
    const host = hostOf(url);
    const to = {
      host,
      port: Number(url.port || (isTls ? 443 : 80)),
      autoSelectFamily: true,
      // What was checked, whatever the name means by now.
      lookup: (_name: string, _options: object, done: (error: null, found: Address[]) => void) =>
        done(null, [...addresses]),
    };
    if (!isTls) return netConnect(to);
    const servername = isIP(host) === 0 ? host : "";
    const trust = this.#authorities === undefined ? {} : { ca: this.#authorities };
    // Also where NODE_TLS_REJECT_UNAUTHORIZED says not to look.
    return tlsConnect({ ...to, ...trust, servername, rejectUnauthorized: true, ALPNProtocols: ["http/1.1"] });
  }
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "")
    throw new OutboundError("the URL is not one of http or https without a user", { permanent: true });
  return url;
}

/** The name or address, which a URL puts in brackets when it is one of IPv6. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "");

/** Rejects when the signal is aborted, which a resolution of a name cannot be told. */
async function aborting<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  using _ = addAbortListener(signal, () => aborted.reject(signal.reason));
  return await Promise.race([work, aborted.promise]);
}
