import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { ConfigError } from "../config.ts";
import { type EntityManager, type Queries, run } from "../db/database.ts";
import { unavailable } from "../errors.ts";
import { decrypt, encrypt, keyLength, newKey, SealBroken, unwrapKey } from "./cipher.ts";
import { KeyServiceError } from "./key-wrapping.ts";
import type { MasterKey } from "./master-key.ts";
import { organizationKeys, serviceKeys } from "./wrapped-keys.ts";

/** Where sealed bytes belong: moved to another record, version or organization they do not open. */
export interface Place {
  readonly organizationId: string;
  /** What kind of bytes, as in "secret.value". */
  readonly kind: string;
  readonly recordId: string;
  readonly version: number;
}

const organizationKeyTtlMs = 5 * 60_000;

/** Encryption at rest: the master key wraps a key per organization, which wraps a key per record, which seals its bytes. */
export class Seal {
  readonly #db: Queries;
  readonly #master: MasterKey;
  /** Promises, so that of many calls that miss the same key one asks the key service for it. */
  readonly #organizationKeys = new LRUCache<string, Promise<KeyObject>>({ max: 1000, ttl: organizationKeyTtlMs });

  constructor(db: Queries, master: MasterKey) {
    this.#db = db;
    this.#master = master;
  }

  /**
   * The bytes of a key of the installation, made on first use and the same on every replica. Throws a ConfigError when
   * the master key is not the one that this database was made with, or cannot be used.
   */
  async serviceKey(name: string, create: () => Buffer = () => randomBytes(keyLength)): Promise<Buffer> {
    const place = serviceKeys.place(name);
    const [row] = await this.#db.query<{ wrapped: Buffer }>("select wrapped from service_key where name = $1", [name]);
    if (row === undefined) {
      await this.#db.query("insert into service_key (name, wrapped) values ($1, $2) on conflict do nothing", [
        name,
        await this.#master.wrap(place, create()),
      ]);
      // What another replica has made first is the key.
      return this.serviceKey(name, create);
    }
    try {
      return await this.#master.unwrap(place, row.wrapped);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new ConfigError(this.#master.mismatch, { cause: error });
    }
  }

  /** Makes the key of a new organization, in the transaction of `em`. */
  async createOrganizationKey(em: EntityManager, organizationId: string): Promise<void> {
    const key = randomBytes(keyLength);
    const wrapped = await this.#master.wrap(organizationKeys.place(organizationId), key).catch(refuseWhileAway);
    key.fill(0);
    await run(em, "insert into organization_key (organization_id, wrapped) values ($1, $2)", [organizationId, wrapped]);
  }

  /** A key for a new record, and its wrapped form for the row of data_key that the caller writes. */
  async createDataKey(queries: Queries, organizationId: string, recordId: string) {
    return newKey(await this.#organizationKey(queries, organizationId), dataKeyPlace(organizationId, recordId));
  }

  /** Opens the wrapped key of a record. Throws SealBroken. */
  async dataKey(queries: Queries, organizationId: string, recordId: string, wrapped: Buffer): Promise<KeyObject> {
    const organizationKey = await this.#organizationKey(queries, organizationId);
    return unwrapKey(organizationKey, dataKeyPlace(organizationId, recordId), wrapped);
  }

  /** Seals bytes under a record's key. */
  seal(key: KeyObject, place: Place, plaintext: Uint8Array): Buffer {
    return encrypt(key, text(place), plaintext);
  }

  /** Opens bytes that were sealed for the same place. Throws SealBroken. */
  open(key: KeyObject, place: Place, sealed: Buffer): Buffer {
    return decrypt(key, text(place), sealed);
  }

  // Asked through the call's own connection: a call in a transaction must not wait for a second one.
  async #organizationKey(queries: Queries, organizationId: string): Promise<KeyObject> {
    const cached = this.#organizationKeys.get(organizationId);
    if (cached !== undefined) return cached;
    const [row] = await queries.query<{ wrapped: Buffer }>(
      "select wrapped from organization_key where organization_id = $1",
      [organizationId],
    );
    if (row === undefined) throw new Error(`organization ${organizationId} has no key`);
    return this.#organizationKeys.get(organizationId) ?? this.#openOrganizationKey(organizationId, row.wrapped);
  }

  #openOrganizationKey(organizationId: string, wrapped: Buffer): Promise<KeyObject> {
    const opening = this.#master.unwrap(organizationKeys.place(organizationId), wrapped).then((bytes) => {
      const key = createSecretKey(bytes);
      bytes.fill(0);
      return key;
    }, refuseWhileAway);
    this.#organizationKeys.set(organizationId, opening);
    opening.catch(() => this.#organizationKeys.delete(organizationId));
    return opening;
  }
}

/** A key service that is away costs a call what a database that is away costs it: a 503 that says to try again. */
function refuseWhileAway(error: unknown): never {
  throw error instanceof KeyServiceError ? unavailable("the key management service cannot be used", error) : error;
}

/** Bytes of a key as a KeyObject, which is several times faster in use than the bytes. */
export const asKey = (bytes: Buffer): KeyObject => createSecretKey(bytes);

const dataKeyPlace = (organizationId: string, recordId: string) => `holdfast/v1|data-key|${organizationId}|${recordId}`;
const text = (at: Place) => `holdfast/v1|${at.kind}|${at.organizationId}|${at.recordId}|${at.version}`;
