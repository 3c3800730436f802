import { Redis, type RedisOptions } from "ioredis";
import type { Logger } from "./logging.ts";

/** Commands fail fast while it is away: everything that uses them has another way. */
const options = {
  commandTimeout: 200,
  socketTimeout: 500,
  connectTimeout: 500,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  lazyConnect: true,
  retryStrategy: (attempt: number) => Math.min(50 * attempt, 1000),
} satisfies RedisOptions;

/** Connects to the first of the nodes, which counts limits and wakes replicas; goes on trying when it is away. */
export async function connectRedis([url = ""]: readonly string[], logger: Logger): Promise<Redis> {
  const redis = new Redis(url, options);
  redis.on("error", () => {});
  await redis
    .connect()
    .catch(() => logger.warn("Redis cannot be reached; limits are counted in memory until it is back"));
  return redis;
}
