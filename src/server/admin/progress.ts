/** How far a piece of work on many keys is. */
export interface Progress {
  readonly phase: "rewrapping" | "checking";
  readonly done: number;
  readonly total: number;
  readonly perSecond: number;
  /** By the pace so far. */
  readonly secondsLeft: number;
}

/** Counts what is done of `total`, and tells `hear` after each step. */
export function counting(phase: Progress["phase"], total: number, hear: (state: Progress) => void) {
  const start = performance.now();
  let done = 0;
  return (count: number): void => {
    done += count;
    const perSecond = (done / Math.max(performance.now() - start, 1)) * 1000;
    // Keys that are made meanwhile come on top.
    const all = Math.max(total, done);
    hear({ phase, done, total: all, perSecond, secondsLeft: (all - done) / perSecond });
  };
}
