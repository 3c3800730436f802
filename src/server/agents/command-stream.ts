import type { Refusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";

/** A file that an agent is asked for. */
export interface UploadRequest {
  readonly requestId: string;
  readonly filePath: string;
  readonly expectedHash: string;
}

/** An open stream of an agent: what waits for the agent, and what of it this stream has told. */
export class CommandStream {
  readonly agentId: string;
  readonly organizationId: string;
  /** Another number ends what the agent logged in with, and so does the end of its credential. */
  readonly credentialVersion: number;
  readonly credentialId: string | null;
  readonly #expiresAt: number;
  #waiting: readonly UploadRequest[] = [];
  #told: ReadonlySet<string> = new Set();
  #news = Promise.withResolvers<void>();
  #isOver = false;
  #refusal: Refusal | undefined;

  constructor({ caller }: Call) {
    this.agentId = caller.id;
    this.organizationId = caller.organizationId;
    this.credentialVersion = caller.credentialVersion;
    this.credentialId = caller.credential?.id ?? null;
    this.#expiresAt = caller.credential?.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the credential that it was opened with is past its end. */
  get hasExpired(): boolean {
    return this.#expiresAt <= Date.now();
  }

  /** Takes note of all that waits for the agent now. What does no more is not told, and not remembered. */
  update(waiting: readonly UploadRequest[]): void {
    this.#waiting = waiting;
    this.#told = new Set(waiting.map(({ requestId }) => requestId).filter((id) => this.#told.has(id)));
    this.#news.resolve();
  }

  /** Ends the stream, with a refusal or well; what it has ended with already stays. */
  end(refusal?: Refusal): void {
    if (!this.#isOver) this.#refusal = refusal;
    this.#isOver = true;
    this.#news.resolve();
  }

  /** What the agent is asked for, each once, until the stream ends; throws the refusal that it ends with. */
  async *requests(): AsyncGenerator<UploadRequest> {
    while (!this.#isOver) {
      const next = this.#waiting.find(({ requestId }) => !this.#told.has(requestId));
      if (next === undefined) {
        await this.#news.promise;
        this.#news = Promise.withResolvers();
      } else {
        this.#told = new Set(this.#told).add(next.requestId);
        yield next;
      }
    }
    if (this.#refusal !== undefined) throw this.#refusal;
  }
}
