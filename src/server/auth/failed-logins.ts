import type { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import { authInvalid, Refusal } from "../errors.ts";
import { Turns } from "./turns.ts";

const failuresAllowed = 10;
const windowSeconds = 15 * 60;
const longestPauseMinutes = 15;
/** After a pause this much longer without a failure, all is forgiven. */
const memorySeconds = 30 * 60;
const neverBlocks = 2 ** 31 - 1;

/** Whom a login is for. */
export type Account = `user:${string}` | `client:${string}`;

/**
 * Slows down who guesses the secret of one account, from however many addresses (G-9.8): ten failures within 15 minutes,
 * and each further one, shut it for 1, 2, 4, 8 and then 15 minutes. Accounts that do not exist are counted alike. Tries
 * take turns, or many at once would all be judged before the first is counted.
 */
export class FailedLogins {
  readonly #failures: RateLimiterRedis;
  readonly #pauses: RateLimiterRedis;
  readonly #turns = new Turns();

  constructor(redis: Redis) {
    const counter = (keyPrefix: string) => {
      const options = { keyPrefix, points: neverBlocks, duration: windowSeconds };
      return new RateLimiterRedis({ ...options, storeClient: redis, insuranceLimiter: new RateLimiterMemory(options) });
    };
    this.#failures = counter("login-failures");
    this.#pauses = counter("login-pause");
  }

  /**
   * Runs a login, which answers undefined for a wrong secret; that is counted, and refused as AUTH_INVALID with `message`.
   * Throws RATE_LIMITED, without running it, while the account is shut.
   */
  guard<T extends object>(account: Account, message: string, login: () => Promise<T | undefined>): Promise<T> {
    return this.#turns.take(account, () => this.#try(account, message, login));
  }

  async #try<T extends object>(account: Account, message: string, login: () => Promise<T | undefined>): Promise<T> {
    const [pause, failures] = await Promise.all([this.#pauses.get(account), this.#failures.get(account)]);
    if (pause !== null && pause.msBeforeNext > 0) throw tooMany(pause.msBeforeNext);
    const result = await login();
    if (result === undefined) {
      await this.#count(account);
      throw authInvalid(message);
    }
    if (failures !== null) await this.#failures.delete(account);
    return result;
  }

  async #count(account: Account): Promise<void> {
    const { consumedPoints } = await this.#failures.consume(account);
    if (consumedPoints < failuresAllowed) return;
    const minutes = Math.min(longestPauseMinutes, 2 ** (consumedPoints - failuresAllowed));
    await Promise.all([
      this.#failures.set(account, consumedPoints, memorySeconds),
      this.#pauses.set(account, 1, minutes * 60),
    ]);
  }
}

function tooMany(msLeft: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(msLeft / 1000));
  return new Refusal("RATE_LIMITED", "too many failed logins; try again later", { retryAfterSeconds });
}
