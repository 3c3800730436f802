import { createHmac, hkdfSync, type KeyObject, randomUUID } from "node:crypto";
import { rfc5054Group3072, saltLength } from "../../standards/srp.ts";
import { type EntityManager, type Queries, run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";

/** What a login with a password needs of a user. */
export interface SrpAccount {
  /** Undefined for a user that does not exist, or has no password yet. */
  readonly id: string | undefined;
  readonly organizationId: string;
  /** Raised when the password is replaced. */
  readonly credentialVersion: number;
  readonly salt: Uint8Array;
  readonly verifier: Uint8Array;
}

interface Row {
  readonly id: string;
  readonly organization_id: string;
  readonly credential_version: number;
  readonly srp_salt: Buffer;
  readonly srp_verifier: Buffer;
  readonly wrapped: Buffer;
}

/** A user of this name, and in any case the organization whose audit log holds logins of nobody. */
const selectAccount = `select u.id, o.id as organization_id, u.credential_version, u.srp_salt, u.srp_verifier, u.wrapped
  from (select id from organization where instance) instance
  left join (select u.id, u.organization_id, u.credential_version, u.srp_salt, u.srp_verifier, k.wrapped
             from user_account u join data_key k on k.record_id = u.id
             where u.username = $1 and u.srp_verifier is not null) u on true
  join organization o on o.id = coalesce(u.organization_id, instance.id)`;

/**
 * The verifiers of users, sealed under a data key each (G-9.3). A username that nobody has is answered with values of the
 * same form, the same each time, after the same work (G-9.2): neither answer nor time tells who exists.
 */
export class SrpAccounts {
  readonly #seal: Seal;
  readonly #key: KeyObject;
  #decoy: Promise<Row> | undefined;

  /** `key` makes the salts and verifiers of users that do not exist. */
  constructor(seal: Seal, key: KeyObject) {
    this.#seal = seal;
    this.#key = key;
  }

  async find(queries: Queries, username: string): Promise<SrpAccount> {
    const [found] = await queries.query<Row | (Pick<Row, "organization_id"> & { id: null })>(selectAccount, [username]);
    if (found === undefined) throw new Error("there is no first organization");
    const exists = found.id !== null;
    const row = exists ? found : await this.#decoyOf(queries, found.organization_id);
    const verifier = await this.#open(queries, row);
    const nobody = this.#nobody(username);
    return {
      id: exists ? row.id : undefined,
      organizationId: row.organization_id,
      credentialVersion: row.credential_version,
      salt: exists ? row.srp_salt : nobody.salt,
      verifier: exists ? verifier : nobody.verifier,
    };
  }

  /** Replaces the password of a user. Other tokens and sessions end, but for `surviving`. */
  async setVerifier(
    call: Queries & { readonly em: EntityManager },
    user: { readonly id: string; readonly organizationId: string },
    { salt, verifier }: { readonly salt: Uint8Array; readonly verifier: Uint8Array },
    surviving?: string,
  ): Promise<void> {
    const { id, organizationId } = user;
    const { key, wrapped } = await this.#seal.createDataKey(call, organizationId, id);
    const sealed = this.#seal.seal(key, placeOf(organizationId, id), verifier);
    await run(
      call.em,
      `with key as (
         insert into data_key (record_id, organization_id, wrapped) values ($1, $2, $3)
         on conflict (record_id) do update set wrapped = excluded.wrapped)
       update user_account set srp_group = $4, srp_salt = $5, srp_verifier = $6, status = 'active',
         credential_version = credential_version + 1, surviving_credential = $7,
         enrollment_token_hash = null, enrollment_expires_at = null, updated_at = now()
       where id = $1 and organization_id = $2`,
      [id, organizationId, wrapped, rfc5054Group3072.name, Buffer.from(salt), sealed, surviving ?? null],
    );
  }

  async #open(queries: Queries, row: Row): Promise<Uint8Array> {
    const key = await this.#seal.dataKey(queries, row.organization_id, row.id, row.wrapped);
    return this.#seal.open(key, placeOf(row.organization_id, row.id), row.srp_verifier);
  }

  /** A sealed verifier that is nobody's: opening it takes as long as opening somebody's. */
  async #makeDecoy(queries: Queries, organizationId: string): Promise<Row> {
    const id = randomUUID();
    const { key, wrapped } = await this.#seal.createDataKey(queries, organizationId, id);
    const { salt, verifier } = this.#nobody("");
    const sealed = this.#seal.seal(key, placeOf(organizationId, id), verifier);
    return {
      id,
      organization_id: organizationId,
      credential_version: 0,
      srp_salt: salt,
      srp_verifier: sealed,
      wrapped,
    };
  }

  #decoyOf(queries: Queries, organizationId: string): Promise<Row> {
    this.#decoy ??= this.#makeDecoy(queries, organizationId).catch((error: unknown) => {
      this.#decoy = undefined;
      throw error;
    });
    return this.#decoy;
  }

  #nobody(username: string): { salt: Buffer; verifier: Uint8Array } {
    const salt = createHmac("sha256", this.#key).update(username).digest().subarray(0, saltLength);
    const { length } = rfc5054Group3072;
    const verifier = new Uint8Array(hkdfSync("sha256", this.#key, salt, "holdfast/v1|srp-nobody", length));
    // Below N, which begins with 64 one bits.
    verifier[0] = 0x7f;
    return { salt, verifier };
  }
}

const placeOf = (organizationId: string, recordId: string) =>
  ({ organizationId, kind: "user.srp_verifier", recordId, version: 1 }) as const;
