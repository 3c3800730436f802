/** When what happened, said as it happens. */
export class Timeline {
  readonly #start = performance.now();

  /** Says what happens now; answers when that is, in seconds since the beginning. */
  mark(what: string): number {
    const at = (performance.now() - this.#start) / 1000;
    console.log(`${at.toFixed(1).padStart(7)} s  ${what}`);
    return at;
  }
}
