import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const file = fileURLToPath(new URL("../../src/holdfast.js", import.meta.url));

// oxlint-disable-next-line typescript/no-explicit-any
export type Entry = Record<string, any>;

/** The longest that anything here takes on a machine with other things to do. */
const patienceMs = 60_000;

/** Answers the first value that `find` finds. */
export async function eventually<T>(what: string, find: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (const start = performance.now(); performance.now() - start < patienceMs; await sleep(50)) {
    const found = await find();
    if (found !== undefined) return found;
  }
  throw new Error(`${what}: not within ${patienceMs / 1000} s`);
}

/** A program as it is run on hosts: a process with settings, which says what it does. */
export class Program {
  readonly child: ChildProcess;
  /** Everything that it wrote. */
  output = "";
  /** The exit status, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  readonly #name: string;

  /** `name` is what follows `holdfast`, as in "agent". */
  constructor(name: string, environment: NodeJS.ProcessEnv) {
    this.#name = name;
    this.child = spawn(file, [name], { env: environment, cwd: "/", stdio: ["ignore", "pipe", "pipe"] });
    this.child.stdout?.on("data", (chunk) => (this.output += chunk));
    this.child.stderr?.on("data", (chunk) => (this.output += chunk));
    this.ended = new Promise((resolve) => this.child.once("close", (code, signal) => resolve(code ?? signal ?? -1)));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** What it has logged, the oldest first. */
  entries(): Entry[] {
    const lines = this.output.slice(0, this.output.lastIndexOf("\n") + 1).split("\n");
    return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Entry);
  }

  /** The first entry with this message after the first `skip` of them. */
  async said(message: string, skip = 0): Promise<Entry> {
    return eventually(`the ${this.#name} says "${message}" (${skip} before)`, () => {
      const entry = this.entries().filter(({ msg }) => msg === message)[skip];
      if (entry === undefined && this.child.exitCode !== null)
        throw new Error(`the ${this.#name} ended with ${this.child.exitCode}: ${this.output}`);
      return entry;
    });
  }

  async end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals> {
    this.child.kill(signal);
    return this.ended;
  }
}
