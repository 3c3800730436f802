import { serveValkey } from "./valkey-bridge.ts";
import { command } from "./valkey-command.ts";

// The program that valkey.ts forks: Valkey for one service, at the socket that the first argument names.

const leave = (code: number) => process.exit(code);
// Before the first await: a service that is killed during the start takes this process with it too.
process.on("disconnect", () => leave(0));
process.on("error", () => leave(1));
process.on("SIGTERM", () => leave(0));
// A Ctrl-C reaches the whole group, and the service still needs its locks while it drains.
process.on("SIGINT", () => {});

const [path = ""] = process.argv.slice(2);
try {
  await serveValkey(path, (error) => {
    console.error(error);
    leave(70);
  });
  // Its 32 bits would allow 3 GB, and a lock must never be evicted to make room.
  await command(path, "CONFIG SET maxmemory 64mb maxmemory-policy noeviction", 5000);
  process.send?.("ready");
} catch (error) {
  process.send?.(error instanceof Error ? error.message : String(error), () => leave(1));
}
if (!process.connected) leave(0);
