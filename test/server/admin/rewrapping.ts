import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Progress } from "../../../src/server/admin/progress.ts";
import type { Summary } from "../../../src/server/admin/rewrap.ts";

const program = fileURLToPath(new URL("./rewrap-process.ts", import.meta.url));

/** What a rewrap has told until its end: the summary is the last of it, unless it was refused or killed. */
export interface Told {
  readonly steps: readonly Progress[];
  readonly summary: Summary | undefined;
  readonly refused: string | undefined;
}

/** A rewrap in a process of its own. */
export interface Rewrapping {
  readonly ended: Promise<Told>;
  /** With SIGKILL. */
  kill(): void;
}

export function startRewrap(environment: Record<string, string>, cwd = "/"): Rewrapping {
  const env = { PATH: process.env["PATH"], ...environment };
  const child = spawn(process.execPath, [program], { env, cwd, stdio: ["ignore", "pipe", "inherit"] });
  const follow = async () => {
    const closed = once(child, "close");
    const steps: Progress[] = [];
    let last: { summary?: Summary; refused?: string } = {};
    for await (const line of createInterface({ input: child.stdout })) {
      const told = JSON.parse(line) as Progress | { summary: Summary } | { refused: string };
      if ("phase" in told) steps.push(told);
      else last = told;
    }
    await closed;
    return { steps, summary: last.summary, refused: last.refused };
  };
  return { ended: follow(), kill: () => child.kill("SIGKILL") };
}
