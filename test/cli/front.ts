import { createServer, request as forward, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";

/** Answers in the server's place; false leaves the request to the server. */
type Intercept = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A server in front of the real one, which may answer in its place. */
export interface Front {
  readonly url: string;
  close(): Promise<void>;
}

interface FrontOptions {
  /** The server behind it; there is none unless given. */
  readonly target?: string;
  readonly intercept?: Intercept;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
}

export async function startFront({ target = "", intercept, tls }: FrontOptions): Promise<Front> {
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    if (intercept?.(request, response)) request.resume();
    else pass(request, response, target);
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http${tls === undefined ? "" : "s"}://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function pass(request: IncomingMessage, response: ServerResponse, target: string): void {
  const { method, headers, url = "" } = request;
  const onward = forward(new URL(url, target), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  request.pipe(onward);
}

/** What a server says past the limit of requests. */
export function answerLimited(response: ServerResponse, retryAfterSeconds: number): true {
  response.writeHead(429, { "content-type": "application/json", "retry-after": String(retryAfterSeconds) });
  response.end('{"code":"resource_exhausted","message":"the limit is exceeded"}');
  return true;
}
