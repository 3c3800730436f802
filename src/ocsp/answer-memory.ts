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
  /** The certificates that it says good of. */
  readonly good: readonly string[];
  /** Of two answers the one that was asked for later has the greater number. */
  readonly order: number;
  /** Of whoever signed. */
  readonly keyHash: Uint8Array;
}

const mostBytes = 60 * 1024 * 1024;
/** Few ask about several at once. Whoever does has no end of ways to put them in a row, which push out each other only. */
const mostBytesOfSeveral = 4 * 1024 * 1024;
const mostRevoked = 100_000;
/** What an entry takes beside its octets, about. */
const entryBytes = 500;

const newEntries = (maxSize: number) =>
  new LRUCache<string, RememberedAnswer>({
    maxSize,
    sizeCalculation: ({ answer, says, good }, key) =>
      answer.der.length + says.length + key.length + good.reduce((sum, { length }) => sum + length, 0) + entryBytes,
  });

/** Signed answers by the CertIDs that were asked about; those that nobody asks for any more make room. */
export class AnswerMemory {
  readonly #ofOne = newEntries(mostBytes);
  readonly #ofSeveral = newEntries(mostBytesOfSeveral);
  /** Those of late: an answer lasts for an hour only. */
  readonly #revoked = new LRUCache<string, true>({ max: mostRevoked });

  /** What was signed for a query, unless that says good of a certificate that is known to be revoked by now. */
  get(key: string): RememberedAnswer | undefined {
    const entry = this.#ofOne.get(key) ?? this.#ofSeveral.get(key);
    return entry?.good.some((certificate) => this.#revoked.has(certificate)) ? undefined : entry;
  }

  /** What was asked for later stays: a signature may take longer than the next one. */
  set(key: string, certificates: number, entry: RememberedAnswer): void {
    const entries = certificates === 1 ? this.#ofOne : this.#ofSeveral;
    if ((entries.peek(key)?.order ?? 0) > entry.order) return;
    // A buffer of its own: one out of the pool of Node would keep alive what else is in its slab.
    const der = new Uint8Array(entry.answer.der);
    entries.set(key, { ...entry, answer: { ...entry.answer, der } });
  }

  /** Nothing that says good of it is given any more: not of another question by which the same certificate was meant. */
  revoked(certificate: string): void {
    this.#revoked.set(certificate, true);
  }
}
