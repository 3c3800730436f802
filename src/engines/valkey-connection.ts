import type { Socket } from "node:net";

export const READABLE = 1;
export const WRITABLE = 2;
const QUEUE_BYTES = 4 << 20;
// As much as Valkey may hold in all. Its own limits for slow clients do not count what is already handed over.
const UNREAD_BYTES = 64 << 20;

/** A client of Valkey, between its socket and the memory of the wasm module. */
export interface Connection {
  readonly socket: Socket;
  readonly chunks: Buffer[];
  /** What of the first chunk is read already. */
  offset: number;
  queued: number;
  eof: boolean;
  eofSeen: boolean;
  full: boolean;
}

/** Follows `socket`, and calls `schedule` when Valkey has something to do for it. */
export function connect(socket: Socket, schedule: () => void): Connection {
  const chunks: Buffer[] = [];
  const connection = { socket, chunks, offset: 0, queued: 0, eof: false, eofSeen: false, full: false };
  const end = () => {
    connection.eof = true;
    schedule();
  };
  socket.on("data", (chunk) => {
    chunks.push(chunk);
    connection.queued += chunk.length;
    if (connection.queued > QUEUE_BYTES) socket.pause();
    schedule();
  });
  socket.on("end", end);
  socket.on("close", end);
  socket.on("error", end);
  socket.on("drain", () => {
    connection.full = false;
    schedule();
  });
  return connection;
}

/** What Valkey may do with it now, as its event loop counts it. */
export function readiness(connection: Connection | undefined): number {
  if (!connection) return 0;
  const readable = connection.chunks.length > 0 || connection.eof ? READABLE : 0;
  return connection.full ? readable : readable | WRITABLE;
}

/** Moves what has arrived into `target`, a piece of Valkey's memory; answers how much. */
export function take(connection: Connection, target: Buffer): number {
  const { chunks, socket } = connection;
  let taken = 0;
  for (let chunk = chunks[0]; chunk && taken < target.length; chunk = chunks[0]) {
    const part = chunk.copy(target, taken, connection.offset);
    taken += part;
    connection.offset += part;
    if (connection.offset < chunk.length) break;
    chunks.shift();
    connection.offset = 0;
  }
  connection.queued -= taken;
  if (connection.queued < QUEUE_BYTES / 2 && socket.isPaused()) socket.resume();
  return taken;
}

/** Sends a copy of `reply`, which is Valkey's memory; answers how much, or -1 when the client is gone. */
export function give(connection: Connection, reply: Buffer): number {
  const { socket } = connection;
  if (socket.writableLength > UNREAD_BYTES) {
    socket.destroy();
    return -1;
  }
  connection.full = !socket.write(Buffer.from(reply));
  return reply.length;
}
