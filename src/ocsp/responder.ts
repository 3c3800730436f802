import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ResponderState } from "./status-source.ts";

export interface Responder {
  readonly address: AddressInfo;
  close(): Promise<void>;
}

/** The listener of the OCSP responder with its probes (gaps G-17.5): /health, /ready, and /live, which asks nobody. */
export async function startResponder(
  host: string,
  port: number,
  readState: () => Promise<ResponderState>,
): Promise<Responder> {
  const server = createServer((request, response) => {
    const path = (request.url ?? "").split("?", 1)[0];
    if (request.method !== "GET" && request.method !== "HEAD")
      send(response, 405, error("METHOD_NOT_ALLOWED", "only GET is served"));
    else if (path === "/live") send(response, 200, { status: "alive" });
    else if (path === "/ready" || path === "/health") {
      readState().then(
        (state) => (path === "/ready" ? sendReady(response, state) : sendHealth(response, state)),
        () => send(response, 500, error("INTERNAL_ERROR", "an unexpected error occurred")),
      );
    } else send(response, 404, error("RESOURCE_NOT_FOUND", "path not found"));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    address: server.address() as AddressInfo,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

const keysLoaded = (state: ResponderState) => state.signingKeys >= state.certificateAuthorities;
const isReady = (state: ResponderState) => state.databaseConnected && keysLoaded(state);

function sendReady(response: ServerResponse, state: ResponderState): void {
  if (isReady(state)) send(response, 200, { status: "ready" });
  else send(response, 503, { status: "not_ready" });
}

function sendHealth(response: ServerResponse, state: ResponderState): void {
  send(response, isReady(state) ? 200 : 503, {
    status: isReady(state) ? "healthy" : "unhealthy",
    components: {
      database: state.databaseConnected ? "connected" : "disconnected",
      signing_key: keysLoaded(state) ? "loaded" : "missing",
      ca_certificates: state.certificateAuthorities,
    },
  });
}

const error = (code: string, message: string) => ({ error: { code, message, details: [], request_id: "" } });

function send(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(response.req.method === "HEAD" ? undefined : text);
}
