import { LRUCache } from "lru-cache";

/** A signed answer, which is true until nextUpdate. */
export interface SignedAnswer {
  /** OCSPResponse. */
  readonly der: Uint8Array;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  /** It repeats the nonce of one query, so it is no answer to another one. */
  readonly hasNonce: boolean;
}

/** A signed answer by what it says, so that it is known when that has changed. */
export interface RememberedAnswer {
  readonly answer: SignedAnswer;
  /** What was true of each certificate. */
  readonly says: string;
  /** When that was asked for, in milliseconds since 1970. */
  readonly askedAtMs: number;
  /** Of whoever signed. */
  readonly keyHash: Uint8Array;
}

const mostBytes = 64 * 1024 * 1024;
/** What an entry takes beside its octets, about. */
const entryBytes = 500;

/** Signed answers by the CertIDs that were asked about; those that nobody asks for any more make room. */
export class AnswerMemory {
  readonly #entries = new LRUCache<string, RememberedAnswer>({
    maxSize: mostBytes,
    sizeCalculation: ({ answer, says }, key) => answer.der.length + says.length + key.length + entryBytes,
  });

  get(key: string): RememberedAnswer | undefined {
    return this.#entries.get(key);
  }

  /** What was asked for later stays: a signature may take longer than the next one. */
  set(key: string, entry: RememberedAnswer): void {
    if ((this.#entries.peek(key)?.askedAtMs ?? 0) > entry.askedAtMs) return;
    // A buffer of its own: one out of the pool of Node would keep alive what else is in its slab.
    const der = new Uint8Array(entry.answer.der);
    this.#entries.set(key, { ...entry, answer: { ...entry.answer, der } });
  }
}
