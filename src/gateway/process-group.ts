import { type ChildProcess, spawn } from "node:child_process";
import { addAbortListener, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

interface ProcessOptions {
  readonly argv: readonly [string, ...string[]];
  /** All of it. */
  readonly environment: NodeJS.ProcessEnv;
  readonly input: string;
  /** Ends the process, and those that it has started. */
  readonly signal: AbortSignal;
}

/** How a process ended. */
export interface Ending {
  /** Null when a signal ended it. */
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last line on its standard error; empty when there is none, or when it is longer than 64 KiB. */
  readonly lastLine: string;
}

/** From SIGTERM to SIGKILL. */
const graceMs = 1000;
/** What was written before the end is read for so long; a process that has left the group may hold the pipe open. */
const readMs = 1000;
const mostBytes = 64 * 1024;

/** The leaders of the groups that run; they end with this program, however that ends by itself. */
const leaders = new Set<number>();
let isWatchingExit = false;

/**
 * Runs a process as the leader of a group of its own, with `input` on its standard input. Its standard output is not
 * read. When it ends, what is left of the group is killed. Rejects with the system's error when it cannot be started.
 */
export async function runInGroup({ argv, environment, input, signal }: ProcessOptions): Promise<Ending> {
  const [file, ...args] = argv;
  const child = spawn(file, args, { env: environment, cwd: "/", detached: true, stdio: ["pipe", "ignore", "pipe"] });
  const tail = new Tail(child);
  const closed = once(child, "close").catch(() => {});
  // It may end without reading it.
  child.stdin?.on("error", () => {}).end(input);
  const exit = once(child, "exit") as Promise<[number, null] | [null, NodeJS.Signals]>;
  try {
    const [status, by] = await ended(child.pid, exit, signal);
    await Promise.race([closed, sleep(readMs, undefined, { ref: false })]);
    return { status, signal: by, lastLine: tail.lastLine() };
  } finally {
    child.stderr?.destroy();
    child.stdin?.destroy();
  }
}

/** Waits until the leader of a group has ended, which `signal` makes it, and kills what is left of the group. */
async function ended<T>(leader: number | undefined, exit: Promise<T>, signal: AbortSignal): Promise<T> {
  if (leader === undefined) return exit;
  let killing: NodeJS.Timeout | undefined;
  const end = () => {
    killGroup(leader, "SIGTERM");
    killing = setTimeout(() => killGroup(leader, "SIGKILL"), graceMs);
  };
  using _ = addAbortListener(signal, end);
  watchExit().add(leader);
  try {
    return await exit;
  } finally {
    clearTimeout(killing);
    killGroup(leader, "SIGKILL");
    leaders.delete(leader);
  }
}

/** The end of what a process writes to its standard error. */
class Tail {
  #bytes = Buffer.alloc(0);
  #isWhole = true;

  constructor({ stderr }: ChildProcess) {
    stderr
      ?.on("error", () => {})
      .on("data", (chunk: Buffer) => {
        const all = Buffer.concat([this.#bytes, chunk]);
        this.#isWhole &&= all.length <= mostBytes;
        this.#bytes = all.subarray(-mostBytes);
      });
  }

  lastLine(): string {
    const text = this.#bytes.toString().trimEnd();
    const start = text.lastIndexOf("\n") + 1;
    // Of a line that is cut, nobody could say whether it begins amid a secret.
    return start === 0 && !this.#isWhole ? "" : text.slice(start);
  }
}

function killGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal);
  } catch {
    // Nobody is left.
  }
}

function watchExit(): Set<number> {
  if (!isWatchingExit) process.on("exit", () => leaders.forEach((leader) => killGroup(leader, "SIGKILL")));
  isWatchingExit = true;
  return leaders;
}
