import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { eventually } from "./program.ts";
import type { Trouble } from "./trouble.ts";

/** What came in. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** What the receiver does about a request; undefined accepts it. */
export type Behaviour = (request: Received) => Trouble | undefined | Promise<Trouble | undefined>;

const accept: Behaviour = () => undefined;

/** Somebody's webhook: records what is sent to it, and behaves as a test says. */
export class Receiver {
  /** All that came, the oldest first. */
  readonly requests: Received[] = [];
  /** The most requests that it had before it at a time. */
  mostAtOnce = 0;
  #behaviour = accept;
  #atOnce = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#receive(request, response));
  }

  static async start(port = 0): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.#server.listen(port, "127.0.0.1");
    await once(receiver.#server, "listening");
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Each receiver is a host of its own. */
  url(path = "/hook"): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  /** From now on. */
  behave(behaviour: Behaviour = accept): void {
    this.#behaviour = behaviour;
  }

  /** What came to a path, once there are so many. */
  async received(count: number, path = "/hook"): Promise<readonly Received[]> {
    return eventually(`${count} requests to ${path}`, () => {
      const those = this.requests.filter((request) => request.path === path);
      return those.length >= count ? those : undefined;
    });
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#atOnce += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#atOnce);
    response.once("close", () => (this.#atOnce -= 1));
    const body = await text(request).catch(() => "");
    const received = { path: request.url ?? "", headers: request.headers, text: body, body: parsed(body) };
    this.requests.push(received);
    const trouble = await this.#behaviour(received);
    if (trouble === undefined) response.writeHead(204).end();
    else trouble.answer(response);
  }
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
