import { createHash, createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";

/**
 * Chains of audit events (docs/decisions/0012): each event's hash covers the event and the hash before it, under a key
 * that the database does not hold. Hashes are 64 lower-case hexadecimal digits wherever they are text.
 */

/** An event as its hash covers it: texts as they are exported, absent ones null, `details` as its JSON text. */
export interface EventContent {
  readonly id: string;
  /** In UTC with milliseconds, as in 2026-01-02T03:04:05.678Z. */
  readonly occurredAt: string;
  readonly action: string;
  readonly outcome: string;
  readonly actorType: string;
  readonly actorId: string | null;
  readonly actorName: string | null;
  readonly resourceType: string;
  readonly resourceId: string | null;
  readonly resourceName: string | null;
  readonly projectId: string | null;
  readonly reason: string | null;
  readonly requestId: string | null;
  readonly sourceIp: string | null;
  readonly userAgent: string | null;
  readonly details: string;
}

/** An event in its place. */
export interface ChainedEvent extends EventContent {
  readonly chain: number;
  /** From 1 within the chain. */
  readonly sequence: number;
  readonly previousHash: string;
  readonly hash: string;
}

/** How far a chain went. */
export interface ChainEnd {
  readonly chain: number;
  readonly length: number;
  /** Of the last event. */
  readonly hash: string;
}

/** The first place of a chain that is not as it was written. */
export interface Break {
  readonly chain: number;
  readonly sequence: number;
  /** The event there is another than it was; is not there; or is in the place of another. */
  readonly reason: "changed" | "missing" | "moved";
}

/** The key of an organization's chains, out of the key of the installation (HKDF-SHA256, RFC 5869). */
export function organizationChainKey(installationKey: Buffer, organizationId: string): KeyObject {
  const info = `holdfast/v1|audit-chain|${organizationId}`;
  return createSecretKey(Buffer.from(hkdfSync("sha256", installationKey, "", info, 32)));
}

const hmac = (key: KeyObject, text: string) => createHmac("sha256", key).update(text).digest("hex");

/** What the first event of a chain has for the hash before it. */
export const startOfChain = (key: KeyObject, chain: number) => hmac(key, `start|${chain}`);

/** The hash of an event: HMAC-SHA256 of the hash before it, followed by a JSON array of what the event says. */
export function hashOf(key: KeyObject, previousHash: string, event: EventContent): string {
  const { id, occurredAt, action, outcome, actorType, actorId, actorName, resourceType, resourceId } = event;
  const { resourceName, projectId, reason, requestId, sourceIp, userAgent, details } = event;
  const actor = [actorType, actorId, actorName];
  const resource = [resourceType, resourceId, resourceName];
  const call = [projectId, reason, requestId, sourceIp, userAgent];
  const texts = JSON.stringify([id, occurredAt, action, outcome, ...actor, ...resource, ...call]);
  return hmac(key, `${previousHash}${texts.slice(0, -1)},${details}]`);
}

/** Stands beside the end of a chain in the database: who cuts the chain cannot make that of an earlier end. */
export const sealOfEnd = (key: KeyObject, { chain, length, hash }: ChainEnd) =>
  hmac(key, `end|${chain}|${length}|${hash}`);

/** One hash for all chains: SHA-256 of a line `chain length hash` for each end, by chain. */
export function headOf(ends: readonly ChainEnd[]): string {
  const head = createHash("sha256");
  for (const { chain, length, hash } of ends) head.update(`${chain} ${length} ${hash}\n`);
  return head.digest("hex");
}

interface Progress {
  length: number;
  hash: string;
  broken?: Break;
}

/** Follows chains from their start and finds the first place of each that is not as it was written. */
export class ChainVerifier {
  /** The number of events seen. */
  checked = 0;
  firstSequence = 0;
  lastSequence = 0;
  readonly #key: KeyObject;
  readonly #expected: ReadonlyMap<number, ChainEnd>;
  readonly #chains = new Map<number, Progress>();

  /** Each chain must reach the end that is expected of it, if there is one, and have its hash there. */
  constructor(key: KeyObject, expected: readonly ChainEnd[] = []) {
    this.#key = key;
    this.#expected = new Map(expected.map((end) => [end.chain, end]));
  }

  /** Takes the next event; those of a chain come in the order of their sequence. */
  add(event: ChainedEvent): void {
    const { chain, sequence } = event;
    this.checked += 1;
    this.firstSequence = this.checked === 1 ? sequence : Math.min(this.firstSequence, sequence);
    this.lastSequence = Math.max(this.lastSequence, sequence);
    const progress = this.#progress(chain);
    if (progress.broken !== undefined) return;
    const reason = this.#faultOf(event, progress);
    if (reason !== undefined) {
      progress.broken = { chain, sequence: Math.min(sequence, progress.length + 1), reason };
      return;
    }
    progress.length = sequence;
    progress.hash = event.hash;
  }

  /** Notes what was found wrong otherwise; the first place of a chain counts. */
  note(broken: Break): void {
    const progress = this.#progress(broken.chain);
    if (progress.broken === undefined || broken.sequence < progress.broken.sequence) progress.broken = broken;
  }

  /** How far a chain was found to go. */
  lengthOf(chain: number): number {
    return this.#chains.get(chain)?.length ?? 0;
  }

  /** The ends of the chains so far, by chain; of a broken chain, the last event before the break. */
  ends(): ChainEnd[] {
    const found = [...this.#chains].filter(([, { length }]) => length > 0);
    return found.map(([chain, { length, hash }]) => ({ chain, length, hash })).sort((a, b) => a.chain - b.chain);
  }

  /** After the last event: the first place that is not as it was written, by chain and sequence. */
  firstBreak(): Break | undefined {
    for (const { chain, length } of this.#expected.values()) {
      const found = this.lengthOf(chain);
      if (found < length) this.note({ chain, sequence: found + 1, reason: "missing" });
    }
    // Chains are numbered from 1 without gaps.
    let next = 1;
    for (const [chain, { broken }] of [...this.#chains].sort(([a], [b]) => a - b)) {
      if (chain > next) return { chain: next, sequence: 1, reason: "missing" };
      if (broken !== undefined) return broken;
      next = chain + 1;
    }
    return undefined;
  }

  #progress(chain: number): Progress {
    let progress = this.#chains.get(chain);
    if (progress === undefined) {
      progress = { length: 0, hash: startOfChain(this.#key, chain) };
      this.#chains.set(chain, progress);
    }
    return progress;
  }

  #faultOf(event: ChainedEvent, { length, hash }: Progress): Break["reason"] | undefined {
    if (event.sequence > length + 1) return "missing";
    // An event that is what it was, and yet does not follow the one before it, was written elsewhere.
    if (event.hash !== hashOf(this.#key, event.previousHash, event)) return "changed";
    if (event.sequence <= length || event.previousHash !== hash) return "moved";
    const expected = this.#expected.get(event.chain);
    return expected?.length === event.sequence && expected.hash !== event.hash ? "changed" : undefined;
  }
}
