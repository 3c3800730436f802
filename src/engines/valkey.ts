import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { EngineError, explain } from "./engine-error.ts";
import { holdFolder } from "./folder-hold.ts";
import { makePrivateFolder } from "./private-folder.ts";
import { makeSocketFolder, removeSocketFolder } from "./socket-folder.ts";
import { type Run, supervise, type Warn } from "./supervise.ts";
import { command } from "./valkey-command.ts";
import { ending } from "./watched-process.ts";

export interface ValkeyOptions {
  /** Hears when Valkey ended by itself or hung, and is started again, empty. */
  readonly warn?: Warn;
}

export interface ValkeyEngine {
  /** The path of its socket, which ioredis takes as a URL. */
  readonly url: string;
  /** The process that runs it; a new one after a crash. */
  readonly pid: number;
  stop(): Promise<void>;
}

const PING_MS = 1000;
const MISSES = 3;
const START_MS = 15_000;

/**
 * Starts Valkey with its socket in `folder`, and keeps it running. It keeps nothing on disk: what it held is gone after
 * a stop or a crash. Throws EngineError for a folder that cannot be used or is in use.
 */
export async function startValkey(folder: string, options: ValkeyOptions = {}): Promise<ValkeyEngine> {
  try {
    const home = makePrivateFolder(folder);
    const hold = holdFolder(home);
    try {
      return await startIn(home, options.warn ?? console.warn, () => hold.release());
    } catch (error) {
      hold.release();
      throw error;
    }
  } catch (error) {
    throw explain(error, folder);
  }
}

async function startIn(home: string, warn: Warn, release: () => void): Promise<ValkeyEngine> {
  const run = makeSocketFolder(home, "valkey.sock");
  const path = join(run, "valkey.sock");
  const supervised = await supervise("Valkey", () => launch(path), warn);
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await supervised.stop();
    removeSocketFolder(run, home);
    release();
  };
  return {
    url: path,
    get pid() {
      return supervised.pid;
    },
    stop: () => (stopped ??= stop()),
  };
}

/** A process of its own: an endless script blocks Valkey for good, and only a kill helps then. */
async function launch(path: string): Promise<Run> {
  const child = fork(fileURLToPath(new URL("./valkey-child.ts", import.meta.url)), [path], {
    detached: true,
    cwd: "/",
    // Nothing of the service's own environment: it holds the master key.
    env: { PATH: process.env.PATH },
    execArgv: ["--disable-warning=ExperimentalWarning"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = ending(child);
  const first = await Promise.race([
    new Promise<unknown>((resolve) => child.once("message", resolve)),
    ended,
    sleep(START_MS, `no answer in ${START_MS} ms`, { ref: false }),
  ]);
  if (first !== "ready") {
    child.kill("SIGKILL");
    await ended;
    throw new EngineError(`Valkey did not start (${String(first)}); run "npm ci", or set SERVICE_REDIS_URL`);
  }
  child.unref();
  child.channel?.unref();
  void watch(path, child);
  return { pid: child.pid ?? 0, ended, end: () => end(child, ended) };
}

/** Kills a Valkey that does not answer several times in a row, as after an endless script. */
async function watch(path: string, child: ChildProcess): Promise<void> {
  for (let misses = 0; misses < MISSES; ) {
    const answers = command(path, "PING", PING_MS).then(
      () => true,
      () => false,
    );
    const [answered] = await Promise.all([answers, sleep(PING_MS, undefined, { ref: false })]);
    if (hasEnded(child)) return;
    misses = answered ? 0 : misses + 1;
  }
  child.kill("SIGKILL");
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

async function end(child: ChildProcess, ended: Promise<string>): Promise<void> {
  if (hasEnded(child)) return;
  child.ref();
  // It has nothing to save.
  child.kill("SIGKILL");
  await ended;
}
