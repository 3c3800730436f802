import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../../src/holdfast.js", import.meta.url));

interface ProcessOptions {
  readonly args?: readonly string[];
  /** Whom it runs as, when that is not who runs the tests. */
  readonly identity?: { readonly uid: number; readonly gid: number };
}

/** The server as operators run it: a process with settings, which says what it has to say. */
export class ServerProcess {
  readonly pid: number;
  stdout = "";
  stderr = "";
  /** The exit status, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  readonly #child: ChildProcess;
  readonly #url: Promise<string>;

  constructor(environment: Record<string, string>, { args = ["serve"], identity }: ProcessOptions = {}) {
    const env = { PATH: process.env["PATH"], HOME: "/", ...environment };
    this.#child = spawn(process.execPath, [program, ...args], {
      ...identity,
      env,
      cwd: "/",
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.pid = this.#child.pid ?? 0;
    this.ended = new Promise((resolve) => this.#child.once("close", (code, signal) => resolve(code ?? signal ?? -1)));
    this.#url = new Promise((resolve, reject) => {
      this.#child.stderr?.on("data", (chunk) => (this.stderr += chunk));
      this.#child.stdout?.on("data", (chunk) => {
        this.stdout += chunk;
        const ready = this.stdout.split("\n").find((line) => line.includes('"msg":"ready"'));
        if (ready !== undefined) resolve(JSON.parse(ready).url ?? "");
      });
      void this.ended.then((how) => reject(new Error(`it ended (${how}): ${this.stderr}${this.stdout.slice(-2000)}`)));
    });
    this.#url.catch(() => {});
  }

  /** Where its API listens, once it does; empty when it runs no API. Rejects when it ends instead. */
  ready(): Promise<string> {
    return this.#url;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.ended;
  }
}
