import { once } from "node:events";
import { Redis } from "ioredis";
import Redlock, { ExecutionError, type Lock, ResourceLockedError } from "redlock";

/** Another holder has the lock. */
export class LockHeld extends Error {
  constructor(name: string) {
    super(`${name} is in progress elsewhere`);
  }
}

/** Fewer than half of the lock's nodes answer. */
export class LockUnavailable extends Error {
  constructor(cause: unknown) {
    super("the lock cannot be reached", { cause });
  }
}

const defaultLeaseMs = 5000;
const connectTimeoutMs = 300;
const nodeOptions = {
  commandTimeout: 300,
  connectTimeout: connectTimeoutMs,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
};

/**
 * One holder among replicas, over one or several independent Redis nodes (Redlock). It saves contenders from working
 * for nothing; the authority is always a row or constraint in PostgreSQL, since a paused holder cannot know it lost.
 */
export class Locks {
  readonly #nodes: Redis[];
  readonly #redlock: Redlock;
  readonly #leaseMs: number;

  /** `leaseMs` is how long a lock outlives a holder that died. */
  constructor(urls: readonly string[], leaseMs = defaultLeaseMs) {
    this.#leaseMs = leaseMs;
    this.#nodes = urls.map((url) => new Redis(url, nodeOptions));
    for (const node of this.#nodes) node.on("error", () => {});
    this.#redlock = new Redlock(this.#nodes as never, { retryCount: 0 });
    this.#redlock.on("error", () => {});
  }

  /**
   * Runs `work` while holding the lock, which is extended as long as it runs. `signal` aborts when the lock is lost.
   * Never waits: throws LockHeld when another holds it, and LockUnavailable when too few nodes answer.
   */
  async hold<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const leaseMs = this.#leaseMs;
    let lock = await this.#acquire(name);
    const lost = new AbortController();
    const extension = setInterval(() => {
      lock.extend(leaseMs).then(
        (extended) => {
          lock = extended;
        },
        (error: unknown) => lost.abort(error),
      );
    }, leaseMs / 3);
    try {
      return await work(lost.signal);
    } finally {
      clearInterval(extension);
      await release(lock);
    }
  }

  async #acquire(name: string): Promise<Lock> {
    const leaseMs = this.#leaseMs;
    await Promise.all(this.#nodes.map(firstConnection));
    let lock: Lock;
    try {
      lock = await this.#redlock.acquire([`lock:${name}`], leaseMs);
    } catch (error) {
      if (await isHeld(error)) throw new LockHeld(name);
      throw new LockUnavailable(error);
    }
    // Redlock may return a lock that expired while its nodes were slow.
    if (lock.expiration - Date.now() > leaseMs / 2) return lock;
    await release(lock);
    throw new LockUnavailable(new Error("the nodes answered too slowly"));
  }

  async close(): Promise<void> {
    for (const node of this.#nodes) node.disconnect();
  }
}

/** Waits for every node: Redlock is content with most, and with one down the last to let go would refuse the next holder. */
async function release(lock: Lock): Promise<void> {
  try {
    const { attempts } = await lock.release();
    await Promise.all(attempts);
  } catch {
    // It ends with its lease.
  }
}

/** Settles when a node that was just asked for has answered or not: a start is no reason to call it unavailable. */
async function firstConnection(node: Redis): Promise<void> {
  if (node.status !== "connecting" && node.status !== "connect") return;
  const signal = AbortSignal.timeout(connectTimeoutMs);
  await Promise.race([once(node, "ready", { signal }), once(node, "close", { signal })]).catch(() => {});
}

async function isHeld(error: unknown): Promise<boolean> {
  if (!(error instanceof ExecutionError)) return false;
  const last = await error.attempts.at(-1);
  return [...(last?.votesAgainst.values() ?? [])].some((vote) => vote instanceof ResourceLockedError);
}
