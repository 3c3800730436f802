import type { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import { RateClass } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";

/** What requests are counted as: calls by the class of their method, and those of the OCSP listener. */
export type LimitedClass = RateClass | "ocsp";

/** Requests per minute of each limited class; 0 switches a class off. */
export type Limits = Partial<Record<LimitedClass, number>>;

/** Where a caller stands after a request was counted. */
export interface Standing {
  readonly limit: number;
  /** Requests left in the window, never below 0. */
  readonly remaining: number;
  /** Unix seconds at which the window ends, rounded up. */
  readonly resetAt: number;
  readonly retryAfterSeconds: number;
  readonly exceeded: boolean;
}

const limitedClasses = [RateClass.API, RateClass.AUTH, RateClass.AGENT, "ocsp"] as const;
const windowSeconds = 60;
/** The limiter only counts: whether a count is too high depends on the caller. */
const neverBlocks = 2 ** 31 - 1;

/** Fixed windows of a minute, counted in Redis for all replicas, and in memory while Redis is away (gaps section 11). */
export class RateLimits {
  readonly #limits: Limits;
  readonly #counters = new Map<LimitedClass, RateLimiterRedis>();

  constructor(redis: Redis, limits: Limits) {
    this.#limits = limits;
    for (const rateClass of limitedClasses) {
      const options = { keyPrefix: `rate:${rateClass}`, points: neverBlocks, duration: windowSeconds };
      const insuranceLimiter = new RateLimiterMemory(options);
      this.#counters.set(rateClass, new RateLimiterRedis({ ...options, storeClient: redis, insuranceLimiter }));
    }
  }

  /** Counts one request of `key`; undefined when the class is not limited. `ownLimit` replaces the installation's. */
  async count(rateClass: LimitedClass, key: string, ownLimit?: number): Promise<Standing | undefined> {
    const common = this.#limits[rateClass] ?? 0;
    const counter = this.#counters.get(rateClass);
    if (common === 0 || counter === undefined) return undefined;
    const limit = ownLimit ?? common;
    const { consumedPoints, msBeforeNext } = await counter.consume(key).catch((error: unknown) => {
      if (error instanceof RateLimiterRes) return error;
      throw error;
    });
    return {
      limit,
      remaining: Math.max(0, limit - consumedPoints),
      resetAt: Math.ceil((Date.now() + msBeforeNext) / 1000),
      retryAfterSeconds: Math.max(1, Math.ceil(msBeforeNext / 1000)),
      exceeded: consumedPoints > limit,
    };
  }
}
