import { Redis } from "ioredis";

const channel = "holdfast:wake";
const longestPauseMs = 1000;

/**
 * Wakes whoever waits for news of a topic, on whichever replica, over Redis pub/sub. It is a hint that may get lost: what
 * is new stands in PostgreSQL, and whoever waits looks there by itself from time to time.
 */
export class Wakes {
  readonly #publisher: Redis;
  readonly #subscriber: Redis;
  readonly #listeners = new Map<string, Set<() => void>>();

  /** `publisher` may be shared with others; listening takes a connection of its own. */
  constructor(publisher: Redis, url: string) {
    this.#publisher = publisher;
    this.#subscriber = new Redis(url, {
      connectTimeout: 500,
      maxRetriesPerRequest: null,
      retryStrategy: (attempt) => Math.min(50 * attempt, longestPauseMs),
    });
    this.#subscriber.on("error", () => {});
    this.#subscriber.on("message", (_, topic) => this.#tell(topic));
    // Subscribed again by itself after each loss of the connection.
    this.#subscriber.subscribe(channel).catch(() => {});
  }

  /** Wakes all listeners of a topic: those of this replica at once. */
  wake(topic: string): void {
    this.#tell(topic);
    this.#publisher.publish(channel, topic).catch(() => {});
  }

  /** Calls `listener` whenever the topic is woken, at times twice, until the answer is called. */
  on(topic: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    listeners.add(listener);
    this.#listeners.set(topic, listeners);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#listeners.delete(topic);
    };
  }

  close(): void {
    this.#subscriber.disconnect();
  }

  #tell(topic: string): void {
    // A copy: a listener may end itself.
    for (const listener of Array.from(this.#listeners.get(topic) ?? [])) listener();
  }
}
