import { createPrivateKey, type KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Signer } from "../../ocsp/status-source.ts";
import { keyIdentifier } from "../../standards/x509/certificates.ts";
import { millis } from "../db/columns.ts";
import type { Queries } from "../db/database.ts";
import type { Logger } from "../logging.ts";
import { SealBroken } from "../seal/cipher.ts";
import type { Seal } from "../seal/seal.ts";
import { signerPlace } from "./ocsp-signers.ts";
import { OcspStatement } from "./ocsp-statement.ts";

/** What an authority signs with, as it was found last: no signer when there is none, or its key does not open. */
interface Found {
  readonly id: string | undefined;
  readonly signer: Signer | undefined;
  /** By the monotonic clock. */
  readonly atMs: number;
}

/** An authority that relying parties may ask about, and the signer it would answer with. */
interface Expected {
  readonly authorityId: string;
  readonly signerId: string | null;
}

interface SealedSigner {
  readonly position: number;
  readonly id: string;
  readonly organizationId: string;
  readonly certificate: Buffer;
  readonly sealedKey: Buffer;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly wrapped: Buffer | null;
}

/** Often enough: a signer is followed by another one two weeks before its end. */
const refreshMs = 60_000;
const usuallyKept = 20_000;
/** How many are opened before others get their turn. */
const chunkSize = 100;

const newest = (authorityId: string) => `(
  select * from ocsp_signer s where s.ca_id = ${authorityId} and s.not_before <= now() and s.not_after > now()
  order by s.not_after desc, s.id desc limit 1)`;

const selectNewest = `select q.position::int, s.id, s.organization_id as "organizationId", s.certificate,
    s.sealed_key as "sealedKey", ${millis("s.not_before")} as "notBefore", ${millis("s.not_after")} as "notAfter", d.wrapped
  from (select $1::uuid[] as authorities offset 0) as asked,
    unnest(asked.authorities) with ordinality as q (ca_id, position)
  cross join lateral ${newest("q.ca_id")} s
  left join data_key d on d.record_id = s.id`;

const selectExpected = `select a.id as "authorityId", s.id as "signerId"
  from certificate_authority a left join lateral ${newest("a.id")} s on true
  where a.not_after > now()`;

/** The delegated responders that sign now, with their keys: remembered, refreshed, and kept while the database is away. */
export class OpenedSigners {
  readonly #db: Queries;
  readonly #seal: Seal;
  readonly #logger: Logger;
  readonly #statement: OcspStatement<string, SealedSigner>;
  readonly #found: LRUCache<string, Found>;
  readonly #finding = new Map<string, Promise<Found>>();
  /** Ids of those that opened. They are no fewer when some make room for others, so no number of authorities is too large. */
  #opened = new Set<string>();

  /** Keeps the keys of `mostKept` authorities at hand. */
  constructor(db: Queries, seal: Seal, logger: Logger, mostKept = usuallyKept) {
    this.#db = db;
    this.#seal = seal;
    this.#logger = logger;
    this.#found = new LRUCache({ max: mostKept });
    this.#statement = new OcspStatement(db, selectNewest, (authorityIds) => [authorityIds]);
  }

  /** The newest one of an authority; undefined when none is valid now. Rejects when that cannot be known. */
  async get(authorityId: string): Promise<Signer | undefined> {
    const found = this.#found.get(authorityId);
    if (found === undefined || !isValid(found.signer)) {
      const { signer } = await this.#find(authorityId);
      return isValid(signer) ? signer : undefined;
    }
    if (performance.now() - found.atMs > refreshMs) this.#find(authorityId).catch(() => {});
    return found.signer;
  }

  /** How many authorities have not ended, and how many of those have a signer that opens. Asks the database, always. */
  async count(): Promise<{ readonly authorities: number; readonly signers: number }> {
    const expected = await this.#db.query<Expected>(selectExpected, []);
    const isOpen = ({ signerId }: Expected) => signerId !== null && this.#opened.has(signerId);
    const unknown = expected.filter(
      (each) => each.signerId !== null && !isOpen(each) && this.#found.peek(each.authorityId)?.id !== each.signerId,
    );
    for (let at = 0; at < unknown.length; at += chunkSize) {
      const chunk = unknown.slice(at, at + chunkSize);
      const found = await Promise.allSettled(chunk.map(({ authorityId }) => this.#find(authorityId)));
      const failure = found.find((each) => each.status === "rejected");
      if (failure !== undefined) this.#logger.warn({ err: failure.reason }, "OCSP signers cannot be opened now");
    }
    const opened = expected.filter(isOpen);
    this.#opened = new Set(opened.map(({ signerId }) => signerId as string));
    return { authorities: expected.length, signers: opened.length };
  }

  #find(authorityId: string): Promise<Found> {
    let finding = this.#finding.get(authorityId);
    if (finding === undefined) {
      finding = this.#ask(authorityId).finally(() => this.#finding.delete(authorityId));
      this.#finding.set(authorityId, finding);
    }
    return finding;
  }

  async #ask(authorityId: string): Promise<Found> {
    const row = await this.#statement.ask(authorityId);
    const found = { id: row?.id, signer: row && (await this.#signerOf(authorityId, row)), atMs: performance.now() };
    this.#found.set(authorityId, found);
    if (row !== undefined && found.signer !== undefined) this.#opened.add(row.id);
    return found;
  }

  /** Once for each signer: a key that did not open would need another master key, and so another process. */
  async #signerOf(authorityId: string, row: SealedSigner): Promise<Signer | undefined> {
    const before = this.#found.peek(authorityId);
    return before?.id === row.id ? before.signer : this.#open(row);
  }

  /** Undefined when the key does not open. Rejects when that cannot be known now. */
  async #open(row: SealedSigner): Promise<Signer | undefined> {
    const { id, certificate, notBefore, notAfter } = row;
    try {
      return {
        certificate,
        privateKey: await this.#openKey(row),
        keyHash: keyIdentifier(certificate),
        notBefore: new Date(Math.round(notBefore)),
        notAfter: new Date(Math.round(notAfter)),
      };
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      this.#logger.error({ err: error, signer_id: id }, "the key of an OCSP signer does not open with this master key");
      return undefined;
    }
  }

  async #openKey({ id, organizationId, sealedKey, wrapped }: SealedSigner): Promise<KeyObject> {
    if (wrapped === null) throw new SealBroken();
    const dataKey = await this.#seal.dataKey(this.#db, organizationId, id, wrapped);
    const pkcs8 = this.#seal.open(dataKey, signerPlace(organizationId, id), sealedKey);
    try {
      return createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });
    } finally {
      pkcs8.fill(0);
    }
  }
}

const isValid = (signer: Signer | undefined): signer is Signer => signer !== undefined && signer.notAfter > new Date();
