import { type ChildProcess, spawn } from "node:child_process";
import type { Account } from "./postgres-account.ts";

/** A process that is interrupted when this one ends, however this one ends. */
export interface WatchedProcess {
  readonly pid: number;
  /** Settles when it has ended, with how: "exit code 1", "SIGKILL". */
  readonly ended: Promise<string>;
  kill(signal: NodeJS.Signals): void;
  /** Lets this process end although that one runs; `ref` takes it back. */
  unref(): void;
  ref(): void;
}

// Nothing of the service's own environment: it holds the master key and the URLs with their passwords.
const env = { PATH: process.env.PATH, LC_ALL: "C", TZ: "UTC" };

/** Starts `command` in a session of its own, so that a Ctrl-C in the terminal does not reach it. */
export function spawnWatched(command: string, args: string[], log: number, account?: Account): WatchedProcess {
  // The program begins only once its watchdog does: until "go" arrives, the death of this process ends it as well.
  const gate = spawn("/bin/sh", ["-c", 'read go && exec "$@" </dev/null', "sh", command, ...args], {
    ...account?.identity,
    cwd: "/",
    detached: true,
    env,
    stdio: ["pipe", log, log],
  });
  const ended = ending(gate);
  const watchdog = spawn(
    "/bin/sh",
    ["-c", 'trap "" INT TERM HUP; read x || kill -INT "$1"', "sh", String(gate.pid), ...args],
    {
      cwd: "/",
      detached: true,
      env,
      stdio: ["pipe", "ignore", "ignore"],
    },
  );
  // Told of the end, the watchdog never signals a stranger that got the same pid.
  void ended.then(() => watchdog.stdin.end("over\n"));
  watchdog.once("error", () => gate.kill("SIGKILL"));
  gate.stdin?.on("error", () => {}).end("go\n");
  watchdog.stdin.on("error", () => {});
  return {
    pid: gate.pid ?? 0,
    ended,
    kill: (signal) => void gate.kill(signal),
    ref: () => gate.ref(),
    unref: () => {
      gate.unref();
      watchdog.unref();
      if ("unref" in watchdog.stdin && typeof watchdog.stdin.unref === "function") watchdog.stdin.unref();
    },
  };
}

/** How a child ends, or why it could not begin. */
export function ending(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
    child.once("error", (error) => resolve(error.message));
  });
}
