#!/usr/bin/env -S MALLOC_ARENA_MAX=2 node --max-semi-space-size=16 --max-old-space-size=384
// Plain JavaScript, so that an older Node can read it: hands over to the Node that came with `npm ci`. The limits keep the
// server below 250 MiB under load; V8 would otherwise let the heap grow with the machine's memory.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import module from "node:module";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const [major, minor] = process.versions.node.split(".").map(Number);
if (major > 24 || (major === 24 && minor >= 11)) {
  // Not in the shared temporary folder, where others could leave code for us.
  module.enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/holdfast", import.meta.url)));
  await import("./cli/main.ts");
} else {
  const node = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));
  if (!existsSync(node)) {
    console.error(`holdfast needs Node 24.11 or newer (this is ${process.version}); run "npm ci" to get it`);
    process.exit(1);
  }
  const child = spawn(node, [...process.execArgv, ...process.argv.slice(1)], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
    process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
