import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { note } from "./output.ts";

/** What others tell the command through us. */
const passedOn = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"] as const;
/** What a terminal tells every process in front of it, so that the command has it already. */
const fromTerminal: ReadonlySet<string> = new Set(["SIGINT", "SIGQUIT", "SIGWINCH"]);

/** Our own credentials, and what the first line of holdfast.js sets for this process. */
const ours = ["HOLDFAST_CLIENT_SECRET", "HOLDFAST_TOKEN", "MALLOC_ARENA_MAX"];

/** The environment of this process without what is only for this process. */
export function childEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.includes(name)));
}

/**
 * Runs a command in place of this program: same input and output, signals passed on. Answers its exit status, 128 and the
 * number of the signal that ended it, or what a shell says of a command that cannot be run.
 */
export async function runChild([file = "", ...args]: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const onTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  let child: ChildProcess | undefined;
  // Before it starts: a signal in between would end us and leave the command behind.
  for (const signal of passedOn) {
    process.on(signal, () => {
      if (!onTerminal || !fromTerminal.has(signal)) child?.kill(signal);
    });
  }
  try {
    child = spawn(file, args, { env, stdio: "inherit" });
    const [status, signal] = (await once(child, "exit")) as [number, null] | [null, NodeJS.Signals];
    return signal === null ? status : 128 + constants.signals[signal];
  } catch (error) {
    return cannotRun(file, error as NodeJS.ErrnoException);
  }
}

function cannotRun(file: string, { code, message }: NodeJS.ErrnoException): number {
  note(
    code === "E2BIG"
      ? "the secrets and arguments are larger than an environment may be"
      : `cannot run ${file}: ${message}`,
  );
  return code === "ENOENT" ? 127 : 126;
}
