import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import { OutboundError } from "./outbound-error.ts";

export interface OutboundAnswer {
  readonly status: number;
  /** Undefined when it is longer than 64 KiB. */
  readonly body: Buffer | undefined;
}

const mostBytes = 64 * 1024;

/** What is said of the connection, and not by whoever sends a request over it (RFC 9110 section 7.6.1). */
const connectionHeaders: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Throws an OutboundError for a header that is not the caller's to give. */
export function checkHeaders(headers: OutgoingHttpHeaders): void {
  const name = Object.keys(headers).find((each) => connectionHeaders.has(each.toLowerCase()));
  if (name !== undefined) throw new OutboundError(`the header ${name} cannot be given`, { permanent: true });
}

/** Sends one request over a connection of its own, and waits for the answer. Throws an OutboundError. */
export async function exchange(
  socket: Socket,
  url: URL,
  { headers, body }: { readonly headers: OutgoingHttpHeaders; readonly body: string },
): Promise<OutboundAnswer> {
  const request = start(socket, url, headers, body);
  // Also what happens when nobody listens any more must not end the program.
  request.on("error", () => {});
  try {
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return { status: response.statusCode ?? 0, body: await bodyOf(response) };
  } catch (error) {
    return unreachable(error);
  }
}

/** Throws the reason why there is no connection, or none any more. */
export function unreachable(error: unknown): never {
  const cause = error instanceof AggregateError ? (error.errors[0] as Error) : (error as Error);
  throw new OutboundError(cause.message, { cause });
}

function start(socket: Socket, url: URL, headers: OutgoingHttpHeaders, body: string): ClientRequest {
  const own = { host: url.host, "content-length": Buffer.byteLength(body), connection: "close" };
  const path = `${url.pathname}${url.search}`;
  try {
    const all = { ...headers, ...own };
    return httpRequest({ createConnection: () => socket, method: "POST", path, headers: all }).end(body);
  } catch (error) {
    // Names the header, never its value.
    throw new OutboundError((error as Error).message, { permanent: true });
  }
}

async function bodyOf(response: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > mostBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
