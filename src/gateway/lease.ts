import type { Clock } from "../targets/machine-clock.ts";

/**
 * For how long a gateway may go on by what the server said last (G-8.5). Each good answer to a heartbeat extends it, from
 * the moment when that was *sent*: the server cannot have answered before, so it knows of no earlier end.
 */
export class Lease {
  readonly #now: Clock;
  #grantedAt = Number.NEGATIVE_INFINITY;
  #endsAt = Number.NEGATIVE_INFINITY;

  constructor(now: Clock) {
    this.#now = now;
  }

  /** What was sent at `sentAt` was answered well. An answer that was overtaken by a later one changes nothing. */
  extend(sentAt: number, seconds: number): void {
    if (sentAt < this.#grantedAt) return;
    this.#grantedAt = sentAt;
    this.#endsAt = sentAt + seconds * 1000;
  }

  get holds(): boolean {
    return this.leftMs > 0;
  }

  /** 0 when it has ended. */
  get leftMs(): number {
    return Math.max(0, this.#endsAt - this.#now());
  }
}
