import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A way to a server, at an address that stays when the server comes back at another; it can be cut and held up. */
export class WeakLink {
  /** Where the server is; while there is none, nobody gets through. */
  target: string | undefined;
  /** How long every piece of a stream takes longer. */
  delayMs = 0;
  readonly #listener: Server = createServer((client) => this.#pass(client));
  readonly #sockets = new Set<Socket>();

  static async open(): Promise<WeakLink> {
    const link = new WeakLink();
    link.#listener.listen(0, "127.0.0.1");
    await once(link.#listener, "listening");
    return link;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** Cuts every connection that there is. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.target = undefined;
    this.cut();
    this.#listener.close();
    await once(this.#listener, "close");
  }

  #pass(client: Socket): void {
    if (this.target === undefined) {
      client.destroy();
      return;
    }
    const { hostname: host, port } = new URL(this.target);
    const server = connect({ host, port: Number(port) });
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      // Whoever was cut off says so by an error.
      this.#forward(from, to).catch(() => {});
      from.on("error", () => {});
    }
  }

  async #forward(from: Socket, to: Socket): Promise<void> {
    for await (const bytes of from) {
      if (this.delayMs > 0) await sleep(this.delayMs);
      if (!to.write(bytes)) await once(to, "drain");
    }
    to.end();
  }
}
