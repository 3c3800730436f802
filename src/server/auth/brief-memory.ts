import { LRUCache } from "lru-cache";

const mostEntries = 10_000;

/** Remembers for some seconds what was read; callers at once share one read. What was not found is not remembered. */
export class BriefMemory<Value> {
  readonly #read: (key: string) => Promise<Value | undefined>;
  readonly #mayRemember: () => boolean;
  readonly #entries: LRUCache<string, Promise<Value | undefined>>;

  constructor(read: (key: string) => Promise<Value | undefined>, ttlMs: number, mayRemember: () => boolean) {
    this.#read = read;
    this.#mayRemember = mayRemember;
    this.#entries = new LRUCache({ max: mostEntries, ttl: ttlMs });
  }

  get(key: string): Promise<Value | undefined> {
    const entry = this.#mayRemember() ? this.#entries.get(key) : undefined;
    if (entry !== undefined) return entry;
    const reading = this.#read(key);
    const drop = () => void (this.#entries.peek(key) === reading && this.#entries.delete(key));
    reading.then((value) => value ?? drop(), drop);
    this.#entries.set(key, reading);
    return reading;
  }

  drop(key: string): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }
}
