import { type KeyKind, type KeyPair, newKeyPair } from "../../standards/x509/key-pairs.ts";
import { unavailable } from "../errors.ts";

/** Whose key is to be made next, once it is their turn. */
interface Waiting {
  readonly organizationId: string;
  begin(): void;
}

/**
 * Makes keys for calls. One of RSA takes up to seconds of one of libuv's few threads, on which all else is signed too, OCSP
 * answers and logins among it, and connections are opened: so they are made one at a time, for organizations in turn.
 */
export class KeyMaking {
  readonly #longestWaitMs: number;
  /** In the order in which they came. */
  readonly #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(longestWaitMs = 10_000) {
    this.#longestWaitMs = longestWaitMs;
  }

  /** Throws SERVICE_UNAVAILABLE when it would have to wait for too long, and the signal's reason when the caller went away. */
  async make(kind: KeyKind, organizationId: string, signal: AbortSignal): Promise<KeyPair> {
    if (kind.algorithm !== "RSA") return newKeyPair(kind);
    signal.throwIfAborted();
    if (this.#isBusy) await this.#turn(organizationId, signal);
    this.#isBusy = true;
    try {
      return await newKeyPair(kind);
    } finally {
      this.#next(organizationId);
    }
  }

  #turn(organizationId: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", goAway);
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      };
      const waiting = {
        organizationId,
        begin: () => {
          leave();
          resolve();
        },
      };
      const goAway = () => {
        leave();
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        leave();
        reject(unavailable("too many RSA keys are being made"));
      }, this.#longestWaitMs);
      signal.addEventListener("abort", goAway);
      this.#waiting.push(waiting);
    });
  }

  /** Stays busy for whoever comes next, so that nobody else comes in between. */
  #next(served: string): void {
    const next = this.#waiting.find(({ organizationId }) => organizationId !== served) ?? this.#waiting[0];
    if (next === undefined) this.#isBusy = false;
    else next.begin();
  }
}
