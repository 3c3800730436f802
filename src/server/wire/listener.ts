import { createServer as createHttp, type RequestListener, Server } from "node:http";
import {
  createServer as createHttp2,
  createSecureServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { notFound, Refusal } from "../errors.ts";
import { requestIdFrom } from "./call.ts";
import type { HttpRequest, HttpResponse } from "./rest-answer.ts";

export type Handler = (request: HttpRequest, response: HttpResponse) => void;

/** One port that speaks HTTP/1.1 and HTTP/2. */
export interface Listener {
  listen(host: string, port: number): Promise<AddressInfo>;
  /** Stops accepting, lets what runs finish, ends streams with GOAWAY, and cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const sweepMs = 50;
/** The oldest version of TLS that a listener speaks. */
export const oldestTlsVersion = "TLSv1.2" as const;
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\n", "latin1");

/** How long a connection may take before it is given up. */
export interface Patience {
  /** For the headers of a request, and for a TLS handshake. */
  readonly headersMs: number;
  /** For a request with its body. */
  readonly requestMs: number;
  readonly idleSessionMs: number;
  /** Node looks for connections that are late this often. */
  readonly checkEveryMs: number;
}

const patience: Patience = { headersMs: 15_000, requestMs: 30_000, idleSessionMs: 600_000, checkEveryMs: 5_000 };
const http2Settings = { maxConcurrentStreams: 1000, maxHeaderListSize: 32 * 1024 };
const http2Options = { settings: http2Settings, maxSessionRejectedStreams: 100, maxSessionInvalidFrames: 100 };

const http1Options = (given: Patience) => ({
  headersTimeout: given.headersMs,
  requestTimeout: given.requestMs,
  connectionsCheckingInterval: given.checkEveryMs,
  // The doors refuse a request without Host themselves, in the specified shape.
  requireHostHeader: false,
});

/** Cleartext: a connection that opens with the HTTP/2 preface goes to HTTP/2, any other to HTTP/1.1. */
export function cleartextListener(handler: Handler, given = patience): Listener {
  const http1 = createHttp(http1Options(given), handler as unknown as RequestListener);
  const http2 = createHttp2(http2Options, handler as never);
  const asHttp1 = http1.listeners("connection") as ((socket: Socket) => void)[];
  http1.removeAllListeners("connection");
  const undecided = new Set<Socket>();
  http1.on("connection", (socket: Socket) => {
    decideByFirstBytes(socket, undecided, given.headersMs, (isHttp2) => {
      if (!isHttp2) for (const listener of asHttp1) listener.call(http1, socket);
      else {
        // HTTP/1.1 answers whoever only listens on. A session of HTTP/2 would not notice that its client is gone.
        socket.allowHalfOpen = false;
        http2.emit("connection", socket);
      }
    });
  });
  return listenerOf(http1, http2, undecided, handler, given);
}

/** The protocol by ALPN. */
export function tlsListener(handler: Handler, tls: { key: Buffer; cert: Buffer }, given = patience): Listener {
  const forTls = { ...tls, allowHTTP1: true, minVersion: oldestTlsVersion, handshakeTimeout: given.headersMs };
  const server = createSecureServer({ ...http2Options, ...http1Options(given), ...forTls }, handler as never);
  Object.assign(server, { headersTimeout: given.headersMs, requestTimeout: given.requestMs });
  const handshaking = new Map<string, Socket>();
  const peer = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
  server.on("connection", (socket: Socket) => {
    const key = peer(socket);
    handshaking.set(key, socket);
    socket.once("close", () => {
      if (handshaking.get(key) === socket) handshaking.delete(key);
    });
  });
  server.on("secureConnection", (socket) => handshaking.delete(peer(socket)));
  return listenerOf(server, server, handshaking, handler, given);
}

function decideByFirstBytes(
  socket: Socket,
  undecided: Set<Socket>,
  timeoutMs: number,
  decided: (isHttp2: boolean) => void,
): void {
  let head: Buffer | undefined;
  const drop = () => socket.destroy();
  const gone = () => undecided.delete(socket);
  const onReadable = () => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    head = head === undefined ? chunk : Buffer.concat([head, chunk]);
    const length = Math.min(head.length, preface.length);
    const isHttp2 = preface.compare(head, 0, length, 0, length) === 0;
    if (isHttp2 && length < preface.length) return; // not yet decided
    socket.off("readable", onReadable).off("error", drop).off("timeout", drop).off("close", gone).setTimeout(0);
    gone();
    socket.unshift(head);
    decided(isHttp2);
  };
  undecided.add(socket);
  socket.on("readable", onReadable).on("error", drop).on("close", gone).setTimeout(timeoutMs, drop);
}

/** What the HTTP/1.1 parser refuses before there is a request: answered in the specified shape all the same. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  const { _httpMessage: running } = socket as Socket & { _httpMessage?: { headersSent: boolean } | null };
  // Whatever else failed, as a TLS handshake, there is nobody to whom HTTP could be spoken.
  const isHttp = /^(HPE_|ERR_HTTP_REQUEST_TIMEOUT$)/.test(error.code ?? "");
  if (!socket.writable || !isHttp || running?.headersSent === true) {
    socket.destroy();
    return;
  }
  const isLate = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
  const message = isLate ? "the request did not arrive in time" : "the request is malformed";
  sendUnparsed(socket, "400 Bad Request", new Refusal("VALIDATION_ERROR", message));
}

/** There is no response to write to: these are the bytes of one. */
function sendUnparsed(socket: Socket, status: string, refusal: Refusal): void {
  const requestId = requestIdFrom(undefined);
  const body = JSON.stringify(refusal.body(requestId));
  const head = [
    `HTTP/1.1 ${status}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    `X-Request-Id: ${requestId}`,
    "Connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

function listenerOf(
  server: Server | Http2SecureServer,
  http2: Http2Server | Http2SecureServer,
  undecided: { values(): Iterable<Socket> },
  handler: Handler,
  given: Patience,
): Listener {
  const sessions = new Set<ServerHttp2Session>();
  http2.on("session", (session: ServerHttp2Session) => {
    sessions.add(session);
    session.setTimeout(given.idleSessionMs, () => session.close());
    session.on("error", () => {});
    session.once("close", () => sessions.delete(session));
  });
  http2.on("sessionError", () => {});
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
  };
  server.on("connection", keep);
  if (!(server instanceof Server)) server.on("secureConnection", keep);
  server.on("clientError", answerClientError);
  // Node would answer what follows by itself, or not at all.
  server.on("checkExpectation", handler as never);
  server.on("connect", (request: HttpRequest, answer: Socket | HttpResponse) => {
    if (request.httpVersionMajor === 2) handler(request, answer as HttpResponse);
    else sendUnparsed(answer as Socket, "404 Not Found", notFound("path"));
  });
  if (http2 !== server) http2.on("checkExpectation", handler as never).on("connect", handler as never);
  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, () => {
          server.off("error", reject);
          resolve(server.address() as AddressInfo);
        });
      }),
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const closeIdle = () => (server as Server).closeIdleConnections?.();
      closeIdle();
      // A connection whose last answer leaves now would otherwise idle on.
      const sweep = setInterval(closeIdle, sweepMs);
      for (const socket of undecided.values()) socket.destroy();
      for (const session of sessions) session.close();
      const cut = setTimeout(() => {
        for (const session of sessions) session.destroy();
        for (const socket of sockets) socket.destroy();
      }, graceMs);
      await closed;
      clearTimeout(cut);
      clearInterval(sweep);
    },
  };
}
