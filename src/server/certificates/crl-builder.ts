import type { Core } from "../context.ts";
import { attempting, Rounds } from "../rounds.ts";
import { buildCrl } from "./crl-build.ts";
import { CrlClaim } from "./crl-claim.ts";
import { requestMisdatedCrls } from "./crl-queue.ts";

/** Lists that one process builds at a time, so that a long one does not keep the short ones waiting. */
const mostAtOnce = 4;

/** One of them has at most so many entries, which is about a second's work: several long ones do not keep them waiting either. */
const mostEntriesOfShort = 50_000;

/** How often what is due is looked for: a revocation is in the list that much later. */
const usualPollMs = 1000;

/** After which what could not be built is tried again. */
const retryMs = 10_000;

/**
 * Builds the revocation lists that are due. All replicas that run jobs do it, each what it gets hold of; a list whose
 * builder has ended is begun anew by another one.
 */
export class CrlBuilder {
  readonly #core: Core;
  readonly #pollMs: number;
  readonly #lanes: readonly Rounds[];
  #isOneInLine = false;

  constructor(core: Core, pollMs = usualPollMs) {
    this.#core = core;
    this.#pollMs = pollMs;
    this.#lanes = Array.from(
      { length: mostAtOnce },
      (_, lane) =>
        new Rounds((signal) => this.#round(signal, lane === 0 ? () => this.#nextShort() : () => this.#next())),
    );
  }

  start(): void {
    for (const lane of this.#lanes) lane.start();
  }

  /** Breaks off what is being built, and gives it back. */
  async stop(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.stop()));
  }

  /** Builds one list, if one is due; answers how long to pause. */
  async #round(signal: AbortSignal, next: () => Promise<CrlClaim | undefined>): Promise<number> {
    const { logger } = this.#core;
    const attempt = attempting(logger, signal);
    const claim = await attempt("looking for revocation lists that are due", next);
    if (claim === undefined) return this.#pollMs;
    const { caId } = claim;
    if (claim.isExpired) {
      await attempt(`ending the revocation lists of ${caId}`, async () => {
        await claim.removeOldParts();
        await claim.rest();
      });
      return 0;
    }
    const built = await attempt(`building the revocation list of ${caId}`, () => buildCrl(this.#core, claim, signal));
    if (built !== undefined) logger.debug({ ca_id: caId, ...built }, "revocation list built");
    // What cannot be given back lapses by itself.
    else await claim.giveBack(signal.aborted ? 0 : retryMs).catch(() => {});
    return 0;
  }

  #nextShort(): Promise<CrlClaim | undefined> {
    return CrlClaim.next(this.#core.db, mostEntriesOfShort);
  }

  /** One at a time waits for revocations to end, so that one that does not keeps no more than a connection. */
  async #next(): Promise<CrlClaim | undefined> {
    const { db } = this.#core;
    const claim = await CrlClaim.next(db);
    if (claim !== undefined || this.#isOneInLine) return claim;
    this.#isOneInLine = true;
    try {
      await requestMisdatedCrls(db);
      return await CrlClaim.nextInLine(db);
    } finally {
      this.#isOneInLine = false;
    }
  }
}
