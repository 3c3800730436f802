import { addAbortListener } from "node:events";
import { isIP, type Socket } from "node:net";
import { type ConnectionOptions, getCACertificates } from "node:tls";
import { Connector, type ConnectorOptions } from "./connector.ts";
import { checkHeaders, exchange, type OutboundAnswer, type OutboundRequest } from "./exchange.ts";
import { OutboundError } from "./outbound-error.ts";
import { limitBytesRead } from "./read-limit.ts";

interface OutboundOptions extends ConnectorOptions {
  /** In PEM, trusted beside those that Node trusts. */
  readonly certificateAuthorities?: string | undefined;
}

interface Limits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The time is for all of it, from the name's resolution to the end of the answer. */
interface GuardedRequest extends OutboundRequest, Limits {
  /** In PEM, of the only authorities that are trusted with this request; those of all requests if left out. */
  readonly certificateAuthorities?: string | undefined;
  /** Called when there is a connection and nothing was sent; what it throws ends the request. */
  readonly beforeSending?: (() => void) | undefined;
}

/** The time is for connecting; when the signal is aborted, the connection ends also later. */
interface GuardedConnection extends Limits {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

const mostBytesOfConnection = 1024 * 1024;

/**
 * The way out, to places that others chose: everything that is sent there goes through here. Connections never lead into
 * networks that are not public (Connector); redirects are not followed, proxies not used, certificates always verified, and
 * sizes and times bounded. SDKs send by `request` too: awsRequestHandler and kubernetesHttpLibrary.
 */
export class Outbound {
  readonly #connector: Connector;
  readonly #authorities: readonly string[] | undefined;

  constructor({ certificateAuthorities, ...options }: OutboundOptions) {
    this.#connector = new Connector(options);
    this.#authorities =
      certificateAuthorities === undefined ? undefined : [...getCACertificates("default"), certificateAuthorities];
  }

  /** Answers whatever status comes. Throws an OutboundError when none does, and what `signal` is aborted with. */
  async request(text: string, request: GuardedRequest): Promise<OutboundAnswer> {
    const url = parseUrl(text);
    checkHeaders(request.headers);
    return await inTime("no answer", request, async (signal, sending) => {
      const socket = await this.#connector.connect(this.#endpointOf(url, request), signal);
      using _ = addAbortListener(signal, () => socket.destroy());
      try {
        request.beforeSending?.();
        sending();
        return await exchange(socket, url, request);
      } finally {
        socket.destroy();
      }
    });
  }

  /**
   * A connection for another protocol than HTTP, to be ended by the caller, with at most 1 MiB to read from it; TLS over it
   * is set up with what `tlsTo` answers. Throws an OutboundError, and what `signal` is aborted with.
   */
  async connect({ host, port, ...limits }: GuardedConnection): Promise<Socket> {
    const socket = await inTime("no connection", limits, (signal) => this.#connector.connect({ host, port }, signal));
    limitBytesRead(socket, mostBytesOfConnection);
    const listening = addAbortListener(limits.signal, () => socket.destroy());
    return socket.once("close", () => listening[Symbol.dispose]());
  }

  /** What TLS to a host is to be set up with; the host's name or address is verified. Authorities as for a request. */
  tlsTo(host: string, certificateAuthorities?: string): ConnectionOptions {
    const authorities = certificateAuthorities === undefined ? this.#authorities : [certificateAuthorities];
    const trust = authorities === undefined ? {} : { ca: [...authorities] };
    // Also where NODE_TLS_REJECT_UNAUTHORIZED says not to look.
    return { host, servername: isIP(host) === 0 ? host : "", rejectUnauthorized: true, ...trust };
  }

  #endpointOf(url: URL, { certificateAuthorities }: GuardedRequest) {
    const isTls = url.protocol === "https:";
    const host = hostOf(url);
    const to = { host, port: Number(url.port || (isTls ? 443 : 80)) };
    return isTls ? { ...to, tls: { ...this.tlsTo(host, certificateAuthorities), ALPNProtocols: ["http/1.1"] } } : to;
  }
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "")
    throw new OutboundError("invalid", "the URL is not one of http or https without a user", { unsent: true });
  return url;
}

/** The name or address, which a URL puts in brackets when it is one of IPv6. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "");

/** Ends work when its time is over or it is aborted; it says when it begins to send. */
async function inTime<T>(
  what: string,
  { timeoutMs, signal }: Limits,
  work: (signal: AbortSignal, sending: () => void) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(timeoutMs);
  let unsent = true;
  try {
    return await work(AbortSignal.any([signal, timeout]), () => {
      unsent = false;
    });
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) throw new OutboundError("timed_out", `${what} within ${timeoutMs / 1000} s`, { unsent });
    throw error;
  }
}
