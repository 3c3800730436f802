import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

type Direction = "to the server" | "to the client";

/** Passes on what goes to a port of this machine and back, and cuts all connections after so many bytes in a direction. */
export class CutProxy {
  /** How much was passed on since the last `cutAfter`. */
  readonly passed: Record<Direction, number> = { "to the server": 0, "to the client": 0 };
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #direction: Direction = "to the server";
  #left = Number.POSITIVE_INFINITY;

  private constructor(port: number) {
    this.#server = createServer((client) => {
      const server = connect(port, "127.0.0.1");
      this.#pass(client, server, "to the server");
      this.#pass(server, client, "to the client");
    });
  }

  static async to(port: number): Promise<CutProxy> {
    const proxy = new CutProxy(port);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** From now on; what follows upon a cut is refused. */
  cutAfter(bytes: number, direction: Direction): void {
    this.#direction = direction;
    this.#left = bytes;
    this.passed["to the server"] = 0;
    this.passed["to the client"] = 0;
    if (bytes === 0) this.#cut();
  }

  close(): void {
    this.#cut();
    this.#server.close();
  }

  #pass(from: Socket, to: Socket, direction: Direction): void {
    this.#sockets.add(from);
    from
      .on("error", () => {})
      .on("close", () => {
        this.#sockets.delete(from);
        to.end();
      });
    from.on("data", (chunk) => {
      const counts = direction === this.#direction;
      const part = counts ? chunk.subarray(0, this.#left) : chunk;
      if (counts) this.#left -= part.length;
      this.passed[direction] += part.length;
      const isOver = this.#left <= 0;
      to.write(part, () => {
        if (isOver) this.#cut();
      });
    });
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
