import type { AddressInfo } from "node:net";
import { connect, createServer, type Server, type Socket } from "node:net";

/** A way to a server that keeps every byte that goes there, and can be narrowed. */
export class Proxy {
  readonly #server: Server = createServer((client) => this.#pass(client, connect(this.#target)));
  readonly #target: { readonly host: string; readonly port: number };
  readonly #sent: Buffer[] = [];
  readonly #sockets = new Set<Socket>();
  #bytesLeft = Number.POSITIVE_INFINITY;

  private constructor(target: string) {
    const { hostname: host, port } = new URL(target);
    this.#target = { host, port: Number(port) };
  }

  /** Listens in front of the server at a URL. */
  static async start(target: string): Promise<Proxy> {
    const proxy = new Proxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Everything that was sent to the server, or would have been. */
  get sent(): Buffer {
    return Buffer.concat(this.#sent);
  }

  /** No more than so many bytes reach the server from now on; the connections stay. */
  limit(bytes: number): void {
    this.#bytesLeft = bytes;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(client: Socket, server: Socket): void {
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
    }
    client.on("data", (bytes: Buffer) => {
      this.#sent.push(bytes);
      const passed = bytes.subarray(0, Math.min(bytes.length, this.#bytesLeft));
      this.#bytesLeft -= passed.length;
      if (passed.length > 0) server.write(passed);
    });
    client.on("close", () => server.destroy());
    server.on("data", (bytes: Buffer) => client.write(bytes)).on("close", () => client.destroy());
  }
}
