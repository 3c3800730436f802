/** Node takes no longer times. */
const longestTimerMs = 2 ** 31 - 1;

/** When the next scan is due: at once when it is made, and then when somebody says so. */
export class Schedule {
  #dueAt = 0;
  #moved = () => {};

  /** A scan is due in so many milliseconds at the latest. */
  hurryTo(ms: number): void {
    const at = performance.now() + ms;
    if (at >= this.#dueAt) return;
    this.#dueAt = at;
    this.#moved();
  }

  /** Waits until a scan is due; what is said after that is about the next one. Rejects when `signal` is aborted. */
  async due(signal: AbortSignal): Promise<void> {
    for (let leftMs = this.#leftMs(); leftMs > 0 && !signal.aborted; leftMs = this.#leftMs()) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(() => moved(), Math.min(leftMs, longestTimerMs));
        const moved = () => {
          clearTimeout(timer);
          signal.removeEventListener("abort", moved);
          resolve();
        };
        signal.addEventListener("abort", moved);
        this.#moved = moved;
      });
    }
    signal.throwIfAborted();
    this.#dueAt = Number.POSITIVE_INFINITY;
  }

  #leftMs = () => this.#dueAt - performance.now();
}
