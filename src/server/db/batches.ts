interface BatchLimits {
  /** Batches that may be on their way at once. */
  readonly mostInFlight: number;
  readonly mostInBatch: number;
  /** Items that may wait; more are refused. */
  readonly mostWaiting: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Lets what arrives within one turn of the event loop share a statement. There is no timer: an item that is alone goes
 * at once, and under load a batch holds what came while the ones before it were on their way.
 */
export class Batches<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #limits: BatchLimits;
  #waiting: Waiting<Item, Result>[] = [];
  #inFlight = 0;
  #scheduled = false;

  /** `run` answers one result for each item, in their order; when it throws, all of them fail. */
  constructor(run: (items: readonly Item[]) => Promise<readonly Result[]>, limits: BatchLimits) {
    this.#run = run;
    this.#limits = limits;
  }

  get isFull(): boolean {
    return this.#waiting.length >= this.#limits.mostWaiting;
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= this.#limits.mostInFlight || this.#waiting.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#send();
    });
  }

  async #send(): Promise<void> {
    const batch = this.#waiting.splice(0, this.#limits.mostInBatch);
    if (batch.length === 0) return;
    this.#inFlight += 1;
    this.#schedule();
    try {
      const results = await this.#run(batch.map(({ item }) => item));
      batch.forEach(({ resolve }, index) => resolve(results[index] as Result));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.#inFlight -= 1;
      this.#schedule();
    }
  }
}
