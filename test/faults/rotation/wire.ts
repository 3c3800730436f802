import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** What happens to the piece that a wire waits for, and to all that follows it. */
export type Fault = "hold" | "cut";

/**
 * A wire to a port of this machine. Whatever goes over it comes in pieces, from either end, of which a new connection is
 * one; at one of them it holds everything back, or is cut.
 */
export class Wire {
  readonly #server: Server;
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #pieces = 0;
  #faultAt = Number.POSITIVE_INFINITY;
  #fault: Fault = "hold";

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  static async to(port: number): Promise<Wire> {
    const wire = new Wire(port);
    wire.#server.listen(0);
    await once(wire.#server, "listening");
    return wire;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Whether the piece has come that it waited for. */
  get hasFailed(): boolean {
    return this.#pieces >= this.#faultAt;
  }

  /** At the piece of that number, the first being 1. */
  failAt(piece: number, fault: Fault): void {
    this.#pieces = 0;
    this.#faultAt = piece;
    this.#fault = fault;
  }

  /** Is whole from now on; what was held back is lost. */
  mend(): void {
    this.failAt(Number.POSITIVE_INFINITY, "hold");
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.mend();
    this.#server.close();
  }

  #accept(near: Socket): void {
    this.#keep(near);
    this.#pass(() => {
      const far = connect(this.#target, "127.0.0.1");
      this.#keep(far);
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        from.on("data", (piece) => this.#pass(() => to.write(piece)));
        from.on("close", () => to.destroy());
      }
    });
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => this.#sockets.delete(socket));
  }

  #pass(piece: () => void): void {
    this.#pieces += 1;
    if (!this.hasFailed) piece();
    else if (this.#fault === "cut") for (const socket of this.#sockets) socket.destroy();
  }
}
