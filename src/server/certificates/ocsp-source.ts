import { LRUCache } from "lru-cache";
import type {
  Authority,
  CertificateState,
  PublishedCrl,
  Question,
  ResponderState,
  Signer,
  StatusSource,
} from "../../ocsp/status-source.ts";
import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import { millis } from "../db/columns.ts";
import type { Queries } from "../db/database.ts";
import type { Logger } from "../logging.ts";
import type { Seal } from "../seal/seal.ts";
import { readCrl } from "./crl-store.ts";
import { OcspStatement } from "./ocsp-statement.ts";
import { OpenedSigners } from "./opened-signers.ts";

interface StateRow {
  readonly position: number;
  readonly notAfter: number;
  readonly revokedAt: number | null;
  readonly reason: RevocationReason | null;
}

/**
 * By primary keys. What a revoked authority issued is revoked with it, unless it was so before. The arrays come out of a
 * subquery that is not flattened, or PostgreSQL would plan the statement anew for each length of them; and so does a status,
 * or PostgreSQL, which may know nothing yet of how many there are, might look through all of an authority for each.
 */
const selectStates = `select q.position::int, ${millis("s.not_after")} as "notAfter",
    ${millis("case when by_itself then s.revoked_at else a.revoked_at end")} as "revokedAt",
    case when by_itself then s.revocation_reason else a.revocation_reason end as reason
  from (select $1::uuid[] as authorities, $2::text[] as serial_numbers offset 0) as asked,
    unnest(asked.authorities, asked.serial_numbers) with ordinality as q (ca_id, serial_number, position)
  cross join lateral (
    select * from certificate_status c where c.ca_id = q.ca_id and c.serial_number = q.serial_number offset 0) s
  join certificate_authority a on a.id = s.ca_id
  cross join lateral (select s.revoked_at <= coalesce(a.revoked_at, s.revoked_at) as by_itself) r`;

interface Hashes {
  readonly nameHash: Uint8Array;
  readonly keyHash: Uint8Array;
}

interface AuthorityRow {
  readonly position: number;
  readonly id: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

const selectAuthorities = `select q.position::int, a.id, ${millis("a.not_before")} as "notBefore",
    ${millis("a.not_after")} as "notAfter"
  from (select $1::bytea[] as names, $2::bytea[] as keys offset 0) as asked,
    unnest(asked.names, asked.keys) with ordinality as q (name_hash, key_hash, position)
  join issuer_hash h on h.name_hash = q.name_hash and h.key_hash = q.key_hash
  join certificate_authority a on a.id = h.ca_id`;

const mostAuthorities = 50_000;
/** For as long one that was removed with its organization may still be taken for one of ours. */
const knownMs = 60_000;
const mostForeign = 10_000;
/** For as long a new authority may stay unknown to a replica that was asked about it too early. */
const foreignMs = 5000;
const stateMs = 1000;

/** What the responder answers from: the database says what is revoked; what does not change is remembered. */
export class DatabaseStatusSource implements StatusSource {
  readonly #db: Queries;
  readonly #signers: OpenedSigners;
  readonly #states: OcspStatement<Question, StateRow>;
  readonly #issuers: OcspStatement<Hashes, AuthorityRow>;
  readonly #authorities = new LRUCache<string, Authority>({ max: mostAuthorities, ttl: knownMs });
  /** By themselves, so that questions about others' certificates drive out none of ours. */
  readonly #foreign = new LRUCache<string, true>({ max: mostForeign, ttl: foreignMs });
  readonly #certificates = new LRUCache<string, Uint8Array>({ max: 1000 });
  #state: { untilMs: number; readonly found: Promise<ResponderState> } | undefined;
  #counted = { authorities: 0, signers: 0 };

  constructor(db: Queries, seal: Seal, logger: Logger) {
    this.#db = db;
    this.#signers = new OpenedSigners(db, seal, logger);
    this.#states = new OcspStatement(db, selectStates, (questions) => [
      questions.map(({ authorityId }) => authorityId),
      questions.map(({ serialNumber }) => serialNumber),
    ]);
    this.#issuers = new OcspStatement(db, selectAuthorities, (issuers) => [
      issuers.map(({ nameHash }) => nameHash),
      issuers.map(({ keyHash }) => keyHash),
    ]);
  }

  async authority(nameHash: Uint8Array, keyHash: Uint8Array): Promise<Authority | undefined> {
    const key = `${latin1(nameHash)}|${latin1(keyHash)}`;
    const known = this.#authorities.get(key);
    if (known !== undefined || this.#foreign.has(key)) return known;
    const row = await this.#issuers.ask({ nameHash, keyHash });
    if (row === undefined) {
      this.#foreign.set(key, true);
      return undefined;
    }
    const authority = { id: row.id, notBefore: instant(row.notBefore), notAfter: instant(row.notAfter) };
    this.#authorities.set(key, authority);
    return authority;
  }

  states(questions: readonly Question[]): Promise<readonly (CertificateState | undefined)[]> {
    return Promise.all(questions.map(async (question) => stateOf(await this.#states.ask(question))));
  }

  signer(authorityId: string): Promise<Signer | undefined> {
    return this.#signers.get(authorityId);
  }

  crl(authorityId: string): Promise<PublishedCrl | undefined> {
    return readCrl(this.#db, authorityId);
  }

  async certificate(authorityId: string): Promise<Uint8Array | undefined> {
    const known = this.#certificates.get(authorityId);
    if (known !== undefined) return known;
    const [row] = await this.#db.query<{ certificate: Buffer }>(
      "select certificate from certificate_authority where id = $1",
      [authorityId],
    );
    if (row !== undefined) this.#certificates.set(authorityId, row.certificate);
    return row?.certificate;
  }

  /** Finds it out once at a time, and at most once a second, whoever asks. */
  state(): Promise<ResponderState> {
    if (this.#state !== undefined && performance.now() < this.#state.untilMs) return this.#state.found;
    const state = { untilMs: Number.POSITIVE_INFINITY, found: this.#findState() };
    this.#state = state;
    return state.found.finally(() => {
      state.untilMs = performance.now() + stateMs;
    });
  }

  async #findState(): Promise<ResponderState> {
    const databaseConnected = await this.#signers.count().then(
      (counted) => {
        this.#counted = counted;
        return true;
      },
      () => false,
    );
    const { authorities, signers } = this.#counted;
    return { databaseConnected, certificateAuthorities: authorities, signingKeys: signers };
  }
}

function stateOf(row: StateRow | undefined): CertificateState | undefined {
  if (row === undefined) return undefined;
  const notAfter = instant(row.notAfter);
  if (row.revokedAt === null) return { notAfter };
  return { notAfter, revoked: { at: instant(row.revokedAt), reason: row.reason ?? "unspecified" } };
}

const latin1 = ({ buffer, byteOffset, length }: Uint8Array) =>
  Buffer.from(buffer, byteOffset, length).toString("latin1");
const instant = (ms: number) => new Date(Math.round(ms));
