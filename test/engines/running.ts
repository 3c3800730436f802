import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** A process with `folder` in its command line. */
export interface Running {
  readonly pid: number;
  readonly command: string;
}

export function runningOn(folder: string): Running[] {
  const lines = execFileSync("ps", ["-ww", "-eo", "pid=,stat=,args="], { encoding: "utf8" }).split("\n");
  return lines.flatMap((line) => {
    const [, pid, state, command] = /^\s*(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
    if (!command?.includes(folder) || state?.startsWith("Z")) return [];
    return [{ pid: Number(pid), command }];
  });
}

/** What still runs on `folder` when it has had 5 s to end. */
export async function survivors(folder: string): Promise<Running[]> {
  for (let tries = 0; tries < 250 && runningOn(folder).length > 0; tries++) await sleep(20);
  return runningOn(folder);
}

/** Settles when `condition` holds; rejects after 10 s. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const start = performance.now(); performance.now() - start < 10_000; await sleep(5)) {
    if (await condition()) return;
  }
  throw new Error(`not within 10 s: ${condition.toString()}`);
}
