import type { KeyObject } from "node:crypto";
import type { Redis } from "ioredis";
import { LRUCache } from "lru-cache";
import type { KeyPair } from "../../standards/srp.ts";
import { decrypt, encrypt, SealBroken } from "../seal/cipher.ts";

const lifeMs = 120_000;
const mostOpen = 4;
const mostUsernames = 1000;

/** The server's half of a login that has begun. */
export interface Handshake {
  readonly keys: KeyPair;
  /** As it is kept, to take it out by. */
  readonly sealed: string;
}

/**
 * Logins that have begun and not ended, for two minutes, at most four for a username (G-9.2). They are in Redis, so that
 * any replica can end them, and sealed, since the private key in them stands for the password; while Redis is away they
 * are in the memory of the replica that began them.
 */
export class SrpHandshakes {
  readonly #redis: Redis;
  readonly #key: KeyObject;
  readonly #own = new LRUCache<string, string[]>({ max: mostUsernames, ttl: lifeMs });

  constructor(redis: Redis, key: KeyObject) {
    this.#redis = redis;
    this.#key = key;
  }

  async open(username: string, keys: KeyPair): Promise<void> {
    const until = Buffer.alloc(8);
    until.writeDoubleBE(Date.now() + lifeMs);
    const plain = Buffer.concat([until, keys.privateKey, keys.publicKey]);
    const sealed = encrypt(this.#key, placeOf(username), plain).toString("base64");
    const name = nameOf(username);
    const kept = await this.#redis
      .multi()
      .lpush(name, sealed)
      .ltrim(name, 0, mostOpen - 1)
      .pexpire(name, lifeMs)
      .exec()
      .catch(() => null);
    if (kept === null) this.#own.set(username, [sealed, ...(this.#own.get(username) ?? [])].slice(0, mostOpen));
  }

  /** Those that are open for a username, the newest first. */
  async list(username: string): Promise<Handshake[]> {
    const shared = await this.#redis.lrange(nameOf(username), 0, -1).catch(() => []);
    return [...shared, ...(this.#own.get(username) ?? [])].flatMap((sealed) => this.#read(username, sealed) ?? []);
  }

  /** Ends a handshake; false when somebody else has, and nothing may come of it any more. */
  async take(username: string, { sealed }: Handshake): Promise<boolean> {
    const own = this.#own.get(username) ?? [];
    if (own.includes(sealed)) {
      this.#own.set(
        username,
        own.filter((each) => each !== sealed),
      );
      return true;
    }
    return (await this.#redis.lrem(nameOf(username), 1, sealed).catch(() => 0)) === 1;
  }

  #read(username: string, sealed: string): Handshake | undefined {
    const plain = openedOrNot(() => decrypt(this.#key, placeOf(username), Buffer.from(sealed, "base64")));
    if (plain === undefined || plain.readDoubleBE(0) <= Date.now()) return undefined;
    return { keys: { privateKey: plain.subarray(8, 40), publicKey: plain.subarray(40) }, sealed };
  }
}

/** Redis may hold what another installation put there, or whoever else can write to it. */
function openedOrNot(open: () => Buffer): Buffer | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof SealBroken) return undefined;
    throw error;
  }
}

const nameOf = (username: string) => `srp:${username}`;
const placeOf = (username: string) => `holdfast/v1|srp-handshake|${username}`;
