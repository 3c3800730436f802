import { getCACertificates } from "node:tls";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { retrying } from "./retry.ts";

/** Answers a client of a service, as in `api(SecretService).getSecret({ id })`. Failed calls reject with a ConnectError. */
export type Api = <S extends DescService>(service: S) => Client<S>;

interface ApiOptions {
  readonly url: string;
  /** What the program calls itself; the audit log keeps it. */
  readonly userAgent: string;
  /** The bearer token of the next call; without it, calls are anonymous. */
  readonly token?: () => Promise<string>;
  /** In PEM, trusted beside those that Node trusts. */
  readonly certificateAuthorities?: string;
  /** Hears how many milliseconds a call waits because of the limit of requests. */
  readonly onLimit?: (waitMs: number) => void;
}

const callTimeoutMs = 30_000;

/** The services of a server, over Connect and HTTP/1.1. Opens no connection before the first call. */
export function connectApi({ url, userAgent, token, certificateAuthorities, onLimit }: ApiOptions): Api {
  const naming: Interceptor = (next) => async (request) => {
    request.header.set("user-agent", userAgent);
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    interceptors: [naming],
    defaultTimeoutMs: callTimeoutMs,
    nodeOptions:
      certificateAuthorities === undefined ? {} : { ca: [...getCACertificates("default"), certificateAuthorities] },
  });
  const identified = token === undefined ? transport : identifying(transport, token);
  const patient = retrying(identified, onLimit ?? (() => {}));
  return (service) => createClient(service, patient);
}

/** The time of a call begins when there is a token: a login may have to wait for the limit of requests. */
function identifying(transport: Transport, token: () => Promise<string>): Transport {
  const identified = async (given: ConstructorParameters<typeof Headers>[0]) => {
    const header = new Headers(given);
    header.set("authorization", `Bearer ${await token()}`);
    return header;
  };
  return {
    unary: async (method, signal, timeoutMs, header, ...message) =>
      transport.unary(method, signal, timeoutMs, await identified(header), ...message),
    stream: async (method, signal, timeoutMs, header, ...messages) =>
      transport.stream(method, signal, timeoutMs, await identified(header), ...messages),
  };
}
