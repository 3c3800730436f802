import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "./logging.ts";

/** How long an end waits for the round that runs. */
const longestEndMs = 1000;

/** Work that goes on in rounds, one after the other. */
export class Rounds {
  readonly #round: (signal: AbortSignal) => Promise<number>;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  /** `round` answers how long to pause after it, in milliseconds. Must not throw. */
  constructor(round: (signal: AbortSignal) => Promise<number>) {
    this.#round = round;
  }

  /** The first round is at once. */
  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.race([this.#running, sleep(longestEndMs, undefined, { ref: false })]);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const pauseMs = await this.#round(signal);
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }
}

/**
 * Does the parts of a round until it is to end. What cannot be done is logged and left to the next round, and keeps
 * nothing else from being done: then, and once the signal is aborted, the answer is undefined.
 */
export const attempting =
  (logger: Logger, signal: AbortSignal | undefined) =>
  async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
    if (signal?.aborted) return undefined;
    try {
      return await work();
    } catch (err) {
      if (!signal?.aborted) logger.warn({ err }, `${what} failed and will be tried again`);
      return undefined;
    }
  };
