import type { IncomingMessage, ServerResponse } from "node:http";
import { LoopbackServer } from "./loopback-server.ts";
import type { Trouble } from "./trouble.ts";

/** A request as a server got it. */
export interface Received {
  readonly method: string;
  /** Percent-decoded, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
}

/** A server of another product, which does what that one's documentation says, and can be made to do it badly. */
export abstract class TargetServer extends LoopbackServer {
  readonly received: Received[] = [];
  /** What happens to a request that comes in; undefined for nothing special. */
  behave: (request: Received) => Trouble | undefined = () => undefined;
  /** Called when a request was done, and its answer has not left. */
  whenDone: (request: Received) => void = () => {};
  /** As in "GET /v1/secret/data/app", of all that was asked for. */
  get requests(): string[] {
    return this.received.map(({ method, path }) => `${method} ${path}`);
  }

  protected abstract answer(request: Received): Answer;

  protected override async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const received = await read(request);
    this.received.push(received);
    const trouble = this.behave(received);
    if (trouble?.done === false) return trouble.answer(response);
    const { status, headers = {}, body } = this.answer(received);
    this.whenDone(received);
    if (trouble !== undefined) return trouble.answer(response);
    const content = body === undefined ? "" : JSON.stringify(body);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(content);
  }
}

async function read(request: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = await request.toArray();
  const { method = "", headers } = request;
  const { pathname, searchParams: query } = new URL(request.url ?? "", "http://localhost");
  return { method, path: decodeURIComponent(pathname), query, headers, body: Buffer.concat(chunks).toString() };
}
