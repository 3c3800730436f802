import { once } from "node:events";
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from "node:http";
import type { Socket } from "node:net";
import { OutboundError } from "./outbound-error.ts";

export interface OutboundRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly headers: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array | undefined;
  /** Longer bodies of answers are not kept. Left out: 64 KiB. */
  readonly mostBytes?: number | undefined;
}

export interface OutboundAnswer {
  readonly status: number;
  /** By lower-case names. */
  readonly headers: Readonly<IncomingHttpHeaders>;
  /** As it was sent, also if it is compressed. Undefined when it is longer than was asked for. */
  readonly body: Buffer | undefined;
}

const usualMostBytes = 64 * 1024;

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

/** Whether a header says something of the connection, or of where the request goes. */
export const isConnectionHeader = (name: string): boolean => connectionHeaders.has(name.toLowerCase());

/** Throws an OutboundError for a header that is not the caller's to give. */
export function checkHeaders(headers: OutgoingHttpHeaders): void {
  const name = Object.keys(headers).find(isConnectionHeader);
  if (name === undefined) return;
  throw new OutboundError("invalid", `the header ${name} cannot be given`, { unsent: true });
}

/** Sends one request over a connection of its own, and waits for the answer. Throws an OutboundError. */
export async function exchange(socket: Socket, url: URL, request: OutboundRequest): Promise<OutboundAnswer> {
  const sent = start(socket, url, request);
  // Also what happens when nobody listens any more must not end the program.
  sent.on("error", () => {});
  // Which would end it without a word.
  sent.on("upgrade", () => sent.emit("error", new Error("the other side would speak another protocol")));
  try {
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const { statusCode: status = 0, headers } = response;
    return { status, headers, body: await bodyOf(response, request.mostBytes ?? usualMostBytes) };
  } catch (error) {
    throw new OutboundError("unreachable", (error as Error).message, { cause: error });
  }
}

function start(socket: Socket, url: URL, { method, headers, body }: OutboundRequest): ClientRequest {
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  const all = { ...headers, ...length, host: url.host, connection: "close" };
  const path = `${url.pathname}${url.search}`;
  try {
    return httpRequest({ createConnection: () => socket, method, path, headers: all }).end(body);
  } catch (error) {
    // Names the header, never its value.
    throw new OutboundError("invalid", (error as Error).message, { unsent: true });
  }
}

async function bodyOf(response: IncomingMessage, mostBytes: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > mostBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
