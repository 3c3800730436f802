import { setTimeout as sleep } from "node:timers/promises";

/** One run of a process that is ready for work. */
export interface Run {
  readonly pid: number;
  readonly ended: Promise<string>;
  /** Ends it and waits for the end; harmless when it has ended. */
  end(): Promise<void>;
}

/** A process that is started again when it ends by itself. */
export interface Supervised {
  /** Of the present run. */
  readonly pid: number;
  stop(): Promise<void>;
}

export type Warn = (message: string) => void;

const FIRST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 5000;

/** Keeps `launch` running under `name`, and waits longer with every failure in a row. Throws what the first launch does. */
export async function supervise(name: string, launch: () => Promise<Run>, warn: Warn): Promise<Supervised> {
  const stopping = new AbortController();
  const { signal } = stopping;
  let run = await launch();
  let delayMs = FIRST_DELAY_MS;

  const relaunch = async () => {
    while (!signal.aborted) {
      await sleep(delayMs, undefined, { ref: false, signal }).catch(() => {});
      if (signal.aborted) return;
      delayMs = Math.min(delayMs * 2, LONGEST_DELAY_MS);
      try {
        run = await launch();
        return;
      } catch (error) {
        warn(`${name} does not start: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  };
  const keep = async () => {
    while (!signal.aborted) {
      const started = performance.now();
      const how = await run.ended;
      if (signal.aborted) return;
      if (performance.now() - started > LONGEST_DELAY_MS) delayMs = FIRST_DELAY_MS;
      warn(`${name} ended (${how}); starting it again`);
      await relaunch();
    }
    await run.end();
  };
  const kept = keep();
  return {
    get pid() {
      return run.pid;
    },
    stop: async () => {
      stopping.abort();
      await run.end();
      await kept;
    },
  };
}
