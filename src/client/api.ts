import { getCACertificates } from "node:tls";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
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
  const identifying: Interceptor = (next) => async (request) => {
    request.header.set("user-agent", userAgent);
    if (token !== undefined) request.header.set("authorization", `Bearer ${await token()}`);
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    interceptors: [identifying],
    defaultTimeoutMs: callTimeoutMs,
    nodeOptions:
      certificateAuthorities === undefined ? {} : { ca: [...getCACertificates("default"), certificateAuthorities] },
  });
  const patient = retrying(transport, onLimit ?? (() => {}));
  return (service) => createClient(service, patient);
}
