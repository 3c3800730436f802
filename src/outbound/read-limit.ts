import type { Socket } from "node:net";
import { OutboundError } from "./outbound-error.ts";

const intervalMs = 20;

/**
 * Ends a connection when more was read from it; what a few milliseconds bring may come on top. Whoever reads is not in its
 * way: it looks at the count from time to time, which goes on where TLS takes the socket over.
 */
export function limitBytesRead(socket: Socket, most: number): void {
  const timer = setInterval(() => {
    if (socket.bytesRead > most) socket.destroy(new OutboundError("unreachable", `more than ${most} bytes came`));
  }, intervalMs).unref();
  socket.once("close", () => clearInterval(timer));
}
