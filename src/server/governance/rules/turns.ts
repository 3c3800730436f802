import { setImmediate } from "node:timers/promises";

/** Others wait for no longer than this, or for as long as what is done between two questions takes. */
const turnMs = 10;

/** Work on the processor that lets others have their turns, and may take only so much of it in all. */
export class Turns {
  #leftMs: number;
  #began = performance.now();
  #usedBefore = process.threadCpuUsage();

  /** `mostMs` is processor time: how busy the machine is does not change what it is enough for. */
  constructor(mostMs: number) {
    this.#leftMs = mostMs;
  }

  /** Whether the turn has lasted long enough. */
  get isOver(): boolean {
    return performance.now() - this.#began >= turnMs;
  }

  get isSpent(): boolean {
    return this.#leftMs <= 0;
  }

  /** Ends the turn, and begins the next one when others have had theirs. */
  async next(): Promise<void> {
    const { user, system } = process.threadCpuUsage(this.#usedBefore);
    this.#leftMs -= (user + system) / 1000;
    await setImmediate();
    this.begin();
  }

  /** Begins a turn; what was done since the last one ended does not count. */
  begin(): void {
    this.#began = performance.now();
    this.#usedBefore = process.threadCpuUsage();
  }
}
