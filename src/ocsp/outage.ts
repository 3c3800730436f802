import type { Logger } from "pino";
import { patienceMs, Wait } from "./wait.ts";

/** How long a query waits that can be answered from memory, in milliseconds, while the source is known to be away. */
const outagePatienceMs = 100;
/** Nothing is concluded from what happened longer ago: the source may be back, and nobody have asked it since. */
const knownForMs = 10_000;
/** A source that comes and goes fills no log. */
const betweenLinesMs = 60_000;

/**
 * Bounds how long queries wait for the source of their answers, and knows when that is away: from when it failed or was
 * too slow until it answers. It is asked for each query all the same, so that one that is back is heard at once.
 */
export class Outage {
  readonly #logger: Logger;
  /** Those that can be cut short when an outage begins. */
  readonly #waits = new Set<Wait<unknown>>();
  #knownUntil = Number.NEGATIVE_INFINITY;
  #isLogged = false;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Settles as `asked` does, or rejects when that takes too long. `hasMemory`: there is an answer without it. */
  async wait<T>(asked: Promise<T>, hasMemory: boolean): Promise<T> {
    const wait = new Wait(asked, this.#isKnown && hasMemory ? outagePatienceMs : patienceMs);
    if (hasMemory) this.#waits.add(wait);
    try {
      return await wait.settled.finally(() => this.#waits.delete(wait));
    } catch (error) {
      if (!wait.wasHeldUp) this.#begin(error);
      throw error;
    }
  }

  /** The source answered. */
  end(): void {
    this.#knownUntil = Number.NEGATIVE_INFINITY;
    if (this.#isLogged) this.#logger.info("the status of certificates can be read again");
    this.#isLogged = false;
  }

  get #isKnown(): boolean {
    return performance.now() < this.#knownUntil;
  }

  #begin(error: unknown): void {
    const [isNews, now] = [!this.#isKnown, performance.now()];
    this.#knownUntil = now + knownForMs;
    if (isNews) for (const wait of this.#waits) wait.within(outagePatienceMs);
    if (this.#isLogged || now < this.#loggedAt + betweenLinesMs) return;
    this.#isLogged = true;
    this.#loggedAt = now;
    this.#logger.error({ err: error }, "the status of certificates cannot be read; OCSP answers from memory");
  }
}
