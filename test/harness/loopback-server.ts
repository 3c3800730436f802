import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";

/** A server of another product, on 127.0.0.1 at a port that is free. */
export abstract class LoopbackServer {
  readonly #server: Server;
  readonly #scheme: string;

  /** Speaks TLS when it has a certificate. */
  constructor(tls?: { readonly cert: Buffer; readonly key: Buffer }) {
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      void this.serve(request, response).catch((error: unknown) => response.destroy(error as Error));
    };
    this.#server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
    this.#scheme = tls === undefined ? "http" : "https";
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  async stop(): Promise<void> {
    (this.#server as ReturnType<typeof createServer>).closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  protected abstract serve(request: IncomingMessage, response: ServerResponse): Promise<void>;
}
