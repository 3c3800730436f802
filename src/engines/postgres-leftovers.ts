import { execFileSync } from "node:child_process";
import { closeSync, constants, existsSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { EngineError } from "./engine-error.ts";

// Root writes in a folder of another user, and follows none of his links.
const OVERWRITE = constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW;

/**
 * Clears what an earlier run left on the cluster in `data` with its sockets in `run`: ends a server whose service and
 * watchdog were both killed, and disarms a pid file whose pid belongs to somebody else by now. Throws EngineError for a
 * server that does not end. The caller holds the folder, so no server on it belongs to a living service.
 */
export async function clearLeftovers(data: string, run: string): Promise<void> {
  const pidFile = join(data, "postmaster.pid");
  if (existsSync(pidFile)) {
    const [first = "", ...rest] = readFileSync(pidFile, "utf8").split("\n");
    const pid = Number.parseInt(first, 10);
    if (isServer(pid, data)) await end(pid, data);
    else {
      // PostgreSQL disregards the pid of its parent, but still looks for backends in the shared memory named below it;
      // removing the file would lose that check.
      const file = openSync(pidFile, OVERWRITE);
      writeFileSync(file, [process.pid, ...rest].join("\n"));
      closeSync(file);
    }
  }
  for (const name of [".s.PGSQL.5432", ".s.PGSQL.5432.lock"]) rmSync(join(run, name), { force: true });
}

async function end(pid: number, data: string): Promise<void> {
  for (const signal of ["SIGINT", "SIGQUIT", "SIGKILL"] as const) {
    interrupt(pid, signal);
    for (let waited = 0; waited < 10_000; waited += 20) {
      if (!isServer(pid, data)) return;
      await sleep(20);
    }
  }
  throw new EngineError(`process ${pid}, a PostgreSQL on ${data}, does not end; stop it, or set SERVICE_DATA_DIR`);
}

function interrupt(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}

/** By its command line: a signal 0 also reaches zombies and whoever got the pid since. */
function isServer(pid: number, data: string): boolean {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(data);
    const command = execFileSync("ps", ["-o", "command=", "-p", String(pid)], { encoding: "utf8" });
    return command.includes(` -D ${data} `);
  } catch {
    return false;
  }
}
