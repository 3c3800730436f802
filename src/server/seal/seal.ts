import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { ConfigError } from "../config.ts";
import { type Database, type EntityManager, type Queries, run } from "../db/database.ts";
import { decrypt, encrypt, newKey, SealBroken, unwrapKey } from "./cipher.ts";

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
  readonly #db: Database;
  readonly #master: KeyObject;
  readonly #organizationKeys = new LRUCache<string, KeyObject>({ max: 1000, ttl: organizationKeyTtlMs });

  constructor(db: Database, master: KeyObject) {
    this.#db = db;
    this.#master = master;
  }

  /**
   * The bytes of a key of the installation, made on first use and the same on every replica. Throws a ConfigError when
   * the master key is not the one that this database was made with.
   */
  async serviceKey(name: string, create: () => Buffer = () => randomBytes(32)): Promise<Buffer> {
    const place = `holdfast/v1|service-key|${name}`;
    const [row] = await this.#db.query<{ wrapped: Buffer }>(
      `with made as (
           insert into service_key (name, wrapped) values ($1, $2) on conflict do nothing returning wrapped)
         select wrapped from made union all select wrapped from service_key where name = $1 limit 1`,
      [name, encrypt(this.#master, place, create())],
    );
    // Nothing comes back when another replica has just made the key: then it is there to read.
    if (row === undefined) return this.serviceKey(name, create);
    try {
      return decrypt(this.#master, place, row.wrapped);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new ConfigError("SERVICE_MASTER_KEY is not the key that this database was sealed with", { cause: error });
    }
  }

  /** Makes the key of a new organization, in the transaction of `em`. */
  async createOrganizationKey(em: EntityManager, organizationId: string): Promise<void> {
    const { wrapped } = newKey(this.#master, organizationPlace(organizationId));
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
    const key = unwrapKey(this.#master, organizationPlace(organizationId), row.wrapped);
    this.#organizationKeys.set(organizationId, key);
    return key;
  }
}

/** Bytes of a key as a KeyObject, which is several times faster in use than the bytes. */
export const asKey = (bytes: Buffer): KeyObject => createSecretKey(bytes);

const organizationPlace = (organizationId: string) => `holdfast/v1|organization-key|${organizationId}`;
const dataKeyPlace = (organizationId: string, recordId: string) => `holdfast/v1|data-key|${organizationId}|${recordId}`;
const text = (at: Place) => `holdfast/v1|${at.kind}|${at.organizationId}|${at.recordId}|${at.version}`;
