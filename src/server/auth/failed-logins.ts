import type { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import { Refusal } from "../errors.ts";

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
 * and each further one, shut it for 1, 2, 4, 8 and then 15 minutes. Accounts that do not exist are counted alike.
 */
export class FailedLogins {
  readonly #failures: RateLimiterRedis;
  readonly #pauses: RateLimiterRedis;

  constructor(redis: Redis) {
    const counter = (keyPrefix: string) => {
      const options = { keyPrefix, points: neverBlocks, duration: windowSeconds };
      return new RateLimiterRedis({ ...options, storeClient: redis, insuranceLimiter: new RateLimiterMemory(options) });
    };
    this.#failures = counter("login-failures");
    this.#pauses = counter("login-pause");
  }

  /** Runs a login that fails by AUTH_INVALID. Throws RATE_LIMITED, without running it, while the account is shut. */
  async guard<T>(account: Account, login: () => Promise<T>): Promise<T> {
    const [pause, failures] = await Promise.all([this.#pauses.get(account), this.#failures.get(account)]);
    if (pause !== null && pause.msBeforeNext > 0) throw tooMany(pause.msBeforeNext);
    try {
      const result = await login();
      if (failures !== null) await this.#failures.delete(account);
      return result;
    } catch (error) {
      if (error instanceof Refusal && error.errorCode === "AUTH_INVALID") await this.#count(account);
      throw error;
    }
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
