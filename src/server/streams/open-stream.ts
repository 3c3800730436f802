import type { Refusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";

/** An open stream: who holds it open, what it is about, and the latest news of that which were not yet taken. */
export class OpenStream<News> {
  /** Of an agent or a gateway. */
  readonly subjectId: string;
  readonly identityId: string;
  readonly organizationId: string;
  /** Another number ends what the identity logged in with, and so does the end of its credential. */
  readonly credentialVersion: number;
  readonly credentialId: string | null;
  readonly #expiresAt: number;
  #latest: { readonly news: News | undefined } | undefined;
  #arrival = Promise.withResolvers<void>();
  #isOver = false;
  #refusal: Refusal | undefined;

  constructor({ caller }: Call, subjectId: string) {
    this.subjectId = subjectId;
    this.identityId = caller.id;
    this.organizationId = caller.organizationId;
    this.credentialVersion = caller.credentialVersion;
    this.credentialId = caller.credential?.id ?? null;
    this.#expiresAt = caller.credential?.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the credential that it was opened with is past its end. */
  get hasExpired(): boolean {
    return this.#expiresAt <= Date.now();
  }

  /** Replaces news that were not yet taken: they are all that is so now. */
  update(news: News | undefined): void {
    this.#latest = { news };
    this.#arrival.resolve();
  }

  /** Ends the stream, with a refusal or well; what it has ended with already stays. */
  end(refusal?: Refusal): void {
    if (!this.#isOver) this.#refusal = refusal;
    this.#isOver = true;
    this.#arrival.resolve();
  }

  /** The news as they were each time that somebody looked, until the stream ends; throws the refusal that it ends with. */
  async *news(): AsyncGenerator<News | undefined> {
    while (!this.#isOver) {
      const latest = this.#latest;
      this.#latest = undefined;
      if (latest !== undefined) {
        yield latest.news;
      } else {
        await this.#arrival.promise;
        this.#arrival = Promise.withResolvers();
      }
    }
    if (this.#refusal !== undefined) throw this.#refusal;
  }
}
