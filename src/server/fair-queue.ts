import { unavailable } from "./errors.ts";

const usualWaitMs = 10_000;

/**
 * Work that would keep a whole process from all else if callers did it as they please. One piece is done at a time, for
 * organizations in turn, so that whoever asks for much waits for themselves.
 */
export class FairQueue {
  readonly #refusal: string;
  readonly #longestWaitMs: number;
  /** What begins the work of those who wait, by organization; whose turn it was last comes last. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** Whose work is done now. */
  #served: string | undefined;

  /** `refusal` is what those are told who would wait longer than `longestWaitMs`. */
  constructor(refusal: string, longestWaitMs = usualWaitMs) {
    this.#refusal = refusal;
    this.#longestWaitMs = longestWaitMs;
  }

  /**
   * Does work once it is its turn. Throws SERVICE_UNAVAILABLE when it would have to wait for too long, and the signal's
   * reason when the caller goes away before.
   */
  async run<T>(organizationId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#served !== undefined) await this.#turn(organizationId, signal);
    this.#served = organizationId;
    try {
      return await work();
    } finally {
      this.#next(organizationId);
    }
  }

  #turn(organizationId: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const queue = this.#waiting.get(organizationId) ?? [];
    this.#waiting.set(organizationId, queue);
    queue.push(resolve);
    const leave = (reason: unknown) => {
      queue.splice(queue.indexOf(resolve), 1);
      if (queue.length === 0) this.#waiting.delete(organizationId);
      reject(reason);
    };
    const goAway = () => leave(signal.reason);
    signal.addEventListener("abort", goAway);
    const timer = setTimeout(() => leave(unavailable(this.#refusal)), this.#longestWaitMs);
    return promise.finally(() => {
      clearTimeout(timer);
      signal.removeEventListener("abort", goAway);
    });
  }

  /** Nobody else comes in before whoever is next. */
  #next(served: string): void {
    const organizations = [...this.#waiting.keys()];
    const next = organizations.find((each) => each !== served) ?? organizations[0];
    const queue = next === undefined ? undefined : this.#waiting.get(next);
    this.#served = next;
    if (next === undefined || queue === undefined) return;
    const begin = queue.shift();
    this.#waiting.delete(next);
    if (queue.length > 0) this.#waiting.set(next, queue);
    begin?.();
  }
}
