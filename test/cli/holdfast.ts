import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestServer } from "../harness/server.ts";

const program = fileURLToPath(new URL("../../src/holdfast.js", import.meta.url));

type Environment = Readonly<Record<string, string | undefined>>;

/** How a run of the program ended, and what it wrote. */
export interface Run {
  /** The exit status, or the signal that ended it. */
  readonly status: number | NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** What is on standard input; nothing unless given. */
  readonly input?: string | Buffer;
  /** Variables beside the usual ones. */
  readonly env?: Environment;
  /** The Node that runs it; that of the tests unless given. */
  readonly node?: string;
}

/** The program as people run it: a process of its own, in a home of its own. */
export class Holdfast {
  /** Its working directory and XDG_CONFIG_HOME. */
  readonly home: string = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  readonly #env: Environment;

  /** `env` is its whole environment beside PATH and the folders of its home. */
  constructor(env: Environment) {
    this.#env = env;
  }

  /** The whole environment of a run. */
  environment(more: Environment = {}): NodeJS.ProcessEnv {
    const { home } = this;
    return { PATH: process.env["PATH"], HOME: home, XDG_CONFIG_HOME: home, ...this.#env, ...more };
  }

  /** Starts it. Arguments in one text are separated by spaces. */
  start(args: string | readonly string[], { input = "", env = {}, node = process.execPath }: RunOptions = {}) {
    const all = typeof args === "string" ? args.split(" ") : args;
    const child = spawn(node, [program, ...all], { env: this.environment(env), cwd: this.home });
    const written = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk) => (written.stdout += chunk));
    child.stderr.on("data", (chunk) => (written.stderr += chunk));
    // It may end without reading what it is given.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    const ended = new Promise<Run>((resolve) => {
      child.once("close", (code, signal) => resolve({ status: code ?? signal ?? -1, ...written }));
    });
    return { child, written, ended };
  }

  /** Runs it to its end. */
  run(args: string | readonly string[], options?: RunOptions): Promise<Run> {
    return this.start(args, options).ended;
  }

  /** Runs it to a good end, and answers what it printed. */
  async print(args: string | readonly string[], options?: RunOptions): Promise<string> {
    const { status, stdout, stderr } = await this.run(args, options);
    if (status !== 0) throw new Error(`holdfast ended with ${status}: ${stderr}${stdout}`);
    return stdout;
  }

  /** Runs it with --json to a good end, and answers what it printed. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async json(args: string, options?: RunOptions): Promise<any> {
    return JSON.parse(await this.print(`${args} --json`, options));
  }

  remove(): void {
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** The program with these arguments, as it is typed into a shell. */
export const commandLine = (args: string) => `${process.execPath} ${program} ${args}`;

/** What the first start of a server tells its administrator to set. */
export const administrator = (server: TestServer) => ({
  HOLDFAST_URL: server.url,
  HOLDFAST_PROJECT_ID: server.projectId,
  HOLDFAST_CLIENT_ID: server.clientId,
  HOLDFAST_CLIENT_SECRET: server.clientSecret,
});

/** The program on a server, for the tests of the surrounding `describe` or file. */
export function useHoldfast(env: () => Environment): () => Holdfast {
  let holdfast: Holdfast;
  before(() => {
    holdfast = new Holdfast(env());
  });
  // There is none when the server did not start.
  after(() => (holdfast as Holdfast | undefined)?.remove());
  return () => holdfast;
}
