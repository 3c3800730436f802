import type { IncomingHttpHeaders } from "node:http";
import { isConnectionHeader, type OutboundRequest } from "./exchange.ts";
import type { Outbound } from "./outbound.ts";
import { OutboundError } from "./outbound-error.ts";

/** A request as the SDKs of AWS make it, with what they give of a body that is no stream. */
interface SdkRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number | undefined;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | readonly string[] | null>> | undefined;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
}

/**
 * The `requestHandler` of a client of AWS that sends by `outbound`. Also the signal that a command is given is heeded.
 * The client is to be told `maxAttempts: 1`, and its region and credentials, or it looks for them by itself.
 */
export const awsRequestHandler = (outbound: Outbound, { timeoutMs }: { readonly timeoutMs: number }) => ({
  async handle(request: SdkRequest, { abortSignal }: { readonly abortSignal?: AbortSignal } = {}) {
    const { status, headers, body } = await outbound.request(urlOf(request), {
      method: request.method as OutboundRequest["method"],
      headers: Object.fromEntries(Object.entries(request.headers).filter(([name]) => !isConnectionHeader(name))),
      body: request.body,
      timeoutMs,
      signal: abortSignal ?? new AbortController().signal,
    });
    if (body === undefined) throw new OutboundError("unreachable", "the answer is too long");
    return { response: { statusCode: status, headers: joined(headers), body } };
  },
});

function urlOf({ protocol, hostname, port, path, query = {} }: SdkRequest): string {
  const url = new URL(`${protocol}//${hostname}${port === undefined ? "" : `:${port}`}${path}`);
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value ?? ""].flat()) url.searchParams.append(name, each);
  }
  return url.href;
}

const joined = (headers: Readonly<IncomingHttpHeaders>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
