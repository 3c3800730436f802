/** Of the time of one processor. */
const share = 1 / 50;
const mostSavedMs = 2000;

/** How much processor time scans may take: a small share on average, and some at once when they took less before. */
export class ProcessorBudget {
  #savedMs = mostSavedMs;
  #countedAt = performance.now();

  /** How long to wait until the next scan. */
  get waitMs(): number {
    const now = performance.now();
    this.#savedMs = Math.min(mostSavedMs, this.#savedMs + (now - this.#countedAt) * share);
    this.#countedAt = now;
    return Math.max(0, -this.#savedMs / share);
  }

  /** Does work that is charged with the processor time that this process takes meanwhile. */
  async charge<T>(work: () => Promise<T>): Promise<T> {
    const before = process.cpuUsage();
    try {
      return await work();
    } finally {
      const { user, system } = process.cpuUsage(before);
      this.#savedMs -= (user + system) / 1000;
    }
  }
}
