import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Takes whatever webhooks bring, at several ports, which are as many hosts to whoever calls. */
export class Receiver {
  /** Since it was opened. */
  received = 0;
  readonly #servers: readonly Server[];
  readonly #awaited = new Map<string, (at: number) => void>();

  private constructor(hosts: number) {
    this.#servers = Array.from({ length: hosts }, () =>
      createServer((request, response) => void this.#take(request, response)),
    );
  }

  static async open(hosts: number): Promise<Receiver> {
    const receiver = new Receiver(hosts);
    for (const server of receiver.#servers) await once(server.listen(0, "127.0.0.1"), "listening");
    return receiver;
  }

  get ports(): number[] {
    return this.#servers.map((server) => (server.address() as AddressInfo).port);
  }

  /** Resolves to when, by this process's clock, the next event of a secret is here. */
  next(secretId: string): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#awaited.set(secretId, resolve);
    return promise;
  }

  close(): void {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body: Buffer[] = await request.toArray();
      const at = performance.now();
      response.writeHead(200, { "content-length": 0 }).end();
      this.received += 1;
      if (this.#awaited.size > 0) this.#tell(Buffer.concat(body), at);
    } catch {
      // Whoever sent it went away.
    }
  }

  #tell(body: Buffer, at: number): void {
    const { secret_id: secretId } = JSON.parse(body.toString()) as { secret_id: string };
    this.#awaited.get(secretId)?.(at);
    this.#awaited.delete(secretId);
  }
}
