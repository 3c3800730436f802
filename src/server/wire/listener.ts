import { createServer as createHttp, type RequestListener, Server } from "node:http";
import {
  createServer as createHttp2,
  createSecureServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { HttpRequest, HttpResponse } from "./rest.ts";

export type Handler = (request: HttpRequest, response: HttpResponse) => void;

/** One port that speaks HTTP/1.1 and HTTP/2. */
export interface Listener {
  listen(host: string, port: number): Promise<AddressInfo>;
  /** Stops accepting, lets what runs finish, ends streams with GOAWAY, and cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\n", "latin1");
const headersTimeoutMs = 15_000;
const requestTimeoutMs = 30_000;
const idleSessionMs = 10 * 60_000;
const http2Settings = { maxConcurrentStreams: 1000, maxHeaderListSize: 32 * 1024 };
const http2Options = { settings: http2Settings, maxSessionRejectedStreams: 100, maxSessionInvalidFrames: 100 };

/** Cleartext: a connection that opens with the HTTP/2 preface goes to HTTP/2, any other to HTTP/1.1. */
export function cleartextListener(handler: Handler): Listener {
  const http1 = createHttp(
    { headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs },
    handler as unknown as RequestListener,
  );
  const http2 = createHttp2(http2Options, handler as never);
  const asHttp1 = http1.listeners("connection") as ((socket: Socket) => void)[];
  http1.removeAllListeners("connection");
  const undecided = new Set<Socket>();
  http1.on("connection", (socket: Socket) => {
    decideByFirstBytes(socket, undecided, (isHttp2) => {
      if (isHttp2) http2.emit("connection", socket);
      else for (const listener of asHttp1) listener.call(http1, socket);
    });
  });
  return listenerOf(http1, http2, undecided);
}

/** TLS 1.2 or newer: the protocol by ALPN. */
export function tlsListener(handler: Handler, tls: { key: Buffer; cert: Buffer }): Listener {
  const options = { ...http2Options, ...tls, allowHTTP1: true, minVersion: "TLSv1.2" as const };
  const server = createSecureServer(options, handler as never);
  Object.assign(server, { headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs });
  return listenerOf(server, server, new Set());
}

function decideByFirstBytes(socket: Socket, undecided: Set<Socket>, decided: (isHttp2: boolean) => void): void {
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
  socket.on("readable", onReadable).on("error", drop).on("close", gone).setTimeout(headersTimeoutMs, drop);
}

/** What the HTTP/1.1 parser refuses before there is a request: answered in the specified shape all the same. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const message =
    error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? "the request did not arrive in time" : "the request is malformed";
  const body = JSON.stringify({ error: { code: "VALIDATION_ERROR", message, details: [], request_id: "" } });
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
}

function listenerOf(
  server: Server | Http2SecureServer,
  http2: Http2Server | Http2SecureServer,
  undecided: Set<Socket>,
): Listener {
  const sessions = new Set<ServerHttp2Session>();
  http2.on("session", (session: ServerHttp2Session) => {
    sessions.add(session);
    session.setTimeout(idleSessionMs, () => session.close());
    session.on("error", () => {});
    session.once("close", () => sessions.delete(session));
  });
  http2.on("sessionError", () => {});
  const sockets = new Set<Socket>();
  server.on(server instanceof Server ? "connection" : "secureConnection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("clientError", answerClientError);
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
      if (server instanceof Server) server.closeIdleConnections();
      for (const socket of undecided) socket.destroy();
      for (const session of sessions) session.close();
      const cut = setTimeout(() => {
        for (const session of sessions) session.destroy();
        for (const socket of sockets) socket.destroy();
      }, graceMs);
      await closed;
      clearTimeout(cut);
    },
  };
}
