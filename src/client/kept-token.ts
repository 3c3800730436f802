import type { Token } from "./token.ts";

/** A token this close to its end is not used: the call would outlive it. */
const marginMs = 30_000;
/** After a login that failed while the token still holds. */
const retryMs = 30_000;

/**
 * A token that is kept in memory: got before the first call, once for all calls at that time, and again some time before
 * its end, at another time in each process. The old one serves until then if there is no new one.
 */
export class KeptToken {
  #token: Token | undefined;
  #renewAt = 0;
  #login: Promise<Token> | undefined;

  /** The token; `login` is called when there should be another one. Rejects as `login` does when there is none. */
  async get(login: () => Promise<Token>): Promise<string> {
    const current = this.#current();
    if (current !== undefined && Date.now() < this.#renewAt) return current.token;
    this.#login ??= login().finally(() => {
      this.#login = undefined;
    });
    try {
      return this.#keep(await this.#login);
    } catch (error) {
      if (current === undefined) throw error;
      this.#renewAt = Date.now() + retryMs;
      return current.token;
    }
  }

  /** Forgets the token, which the server no longer takes. */
  discard(): void {
    this.#token = undefined;
  }

  #current(): Token | undefined {
    const endsAt = this.#token?.expiresAt.getTime() ?? 0;
    return Date.now() < endsAt - marginMs ? this.#token : undefined;
  }

  #keep(token: Token): string {
    if (token !== this.#token) {
      const lifeMs = token.expiresAt.getTime() - Date.now();
      this.#token = token;
      this.#renewAt = Date.now() + lifeMs * (0.5 + Math.random() / 4);
    }
    return token.token;
  }
}
