import { millis } from "../db/columns.ts";
import type { Queries } from "../db/database.ts";

/** For how long a claim keeps others away after its last sign of life. */
const claimSeconds = 30;

/** After which such a sign is due. */
const extendAfterMs = 5000;

/** The next list is due a day after the one before, unless something is revoked (gaps G-13.3). */
const usualInterval = "interval '24 hours'";

/** Small, for those who send a list to clients that read slowly. */
const octetsPerPart = 32 * 1024;

/** Deleted by one statement, for which revocations wait. */
const partsPerDelete = 200;

/**
 * More than any claim lasts, or any rest: what ends after it was made by a clock that was ahead and has been set back, and
 * holds nobody up.
 */
const tooLong = "interval '10 minutes'";

const mostOfAll = 2 ** 31 - 1;

/** Somebody else builds the list by now. */
export class ClaimLost extends Error {
  constructor() {
    super("somebody else builds the list by now");
  }
}

/** A list that is signed, but for its entries, which are kept already. */
interface SignedList {
  readonly number: number;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  readonly size: number;
  readonly sha256: string;
  readonly entries: number;
  readonly head: Buffer;
  readonly tail: Buffer;
  /** What follows the last position of the entries, which begin at 1. */
  readonly tailPosition: number;
}

interface Row {
  readonly caId: string;
  readonly organizationId: string;
  readonly claimId: string;
  readonly number: number;
  readonly numberBefore: number | null;
  readonly thisUpdate: number | null;
  readonly now: number;
  readonly isExpired: boolean;
}

/** The end of a claim from now on. During a build that is also due_at, until something is revoked: that makes it now. */
const newEnd = `now() + make_interval(secs => ${claimSeconds})`;

const claimNext = (locking: string) => `with due as materialized (
    select ca_id from crl
    where due_at <= now() and entries <= $1
      and (claimed_until is null or claimed_until <= now() or claimed_until > now() + ${tooLong})
    order by due_at limit 1 for no key update ${locking})
  update crl set claim_id = gen_random_uuid(), claimed_until = ${newEnd}, due_at = ${newEnd}
  from due join certificate_authority a on a.id = due.ca_id where crl.ca_id = due.ca_id
  returning crl.ca_id as "caId", crl.organization_id as "organizationId", crl.claim_id as "claimId",
    crl.number::float8 as number, ${millis("crl.this_update")} as "thisUpdate", ${millis("now()")} as now,
    a.not_after <= now() as "isExpired",
    (select max(p.number) from crl_part p where p.ca_id = crl.ca_id and p.number < crl.number)::float8 as "numberBefore"`;

const claimUnlocked = claimNext("skip locked");

/** For lists of authorities that revoke without pause, which are nearly always locked: waits in line with the revocations. */
const claimInLine = claimNext("");

/** Whether the claim $2 of authority $1 stands: nobody takes it while the statement runs. */
const held = `with mine as materialized (
  select ca_id from crl where ca_id = $1 and claim_id = $2 and claimed_until > now() for no key update)`;

/** Lets the claim $2 of authority $1 last longer, if it stands. */
const extend = `update crl
  set claimed_until = ${newEnd}, due_at = case when due_at = claimed_until then ${newEnd} else due_at end
  where ca_id = $1 and claim_id = $2 and claimed_until > now() returning ca_id`;

/** A revocation list that nobody else builds meanwhile, for as long as it shows signs of life: to extend it, or to add parts. */
export class CrlClaim {
  readonly caId: string;
  readonly organizationId: string;
  /** When it was made, by the clock of the database. */
  readonly at: Date;
  /** Of the list that was built last; 0 when there is none. */
  readonly lastNumber: number;
  readonly lastUpdate: Date | undefined;
  /** Of the list before that one, which is kept for those who began to read it. */
  readonly #numberBefore: number;
  /** The authority's certificate has ended. */
  readonly isExpired: boolean;
  readonly #queries: Queries;
  readonly #id: string;
  #extendedAt = performance.now();

  private constructor(queries: Queries, row: Row) {
    this.#queries = queries;
    this.#id = row.claimId;
    this.caId = row.caId;
    this.organizationId = row.organizationId;
    this.at = new Date(Math.round(row.now));
    this.lastNumber = row.number;
    this.#numberBefore = row.numberBefore ?? row.number;
    this.lastUpdate = row.thisUpdate === null ? undefined : new Date(Math.round(row.thisUpdate));
    this.isExpired = row.isExpired;
  }

  /**
   * Claims what has been due the longest, of lists that had no more than `mostEntries` when they were built last; undefined
   * when nothing is, but for what somebody is about to revoke something of.
   */
  static async next(queries: Queries, mostEntries = mostOfAll): Promise<CrlClaim | undefined> {
    const [row] = await queries.query<Row>(claimUnlocked, [mostEntries]);
    return row && new CrlClaim(queries, row);
  }

  /** The same, but behind those who revoke something at this moment, for as long as a statement may take. */
  static async nextInLine(queries: Queries): Promise<CrlClaim | undefined> {
    const [row] = await queries.query<Row>(claimInLine, [mostOfAll]);
    return row && new CrlClaim(queries, row);
  }

  /** Keeps the claim where it would lapse otherwise. Throws ClaimLost, as do addParts and publish. */
  async extend(): Promise<void> {
    if (performance.now() - this.#extendedAt < extendAfterMs) return;
    requireClaim(await this.#queries.query(extend, [this.caId, this.#id]));
    this.#extendedAt = performance.now();
  }

  /** Keeps entries of the list under way, in parts from a position on; answers the position after them. */
  async addParts(number: number, position: number, bytes: Buffer): Promise<number> {
    await this.extend();
    const count = Math.ceil(bytes.length / octetsPerPart);
    const added = await this.#queries.query(
      `${held} insert into crl_part (ca_id, number, position, bytes)
       select ca_id, $3, $4::int + n, substring($5::bytea from n * ${octetsPerPart} + 1 for ${octetsPerPart})
       from mine, generate_series(0, $6::int - 1) as n returning position`,
      [this.caId, this.#id, number, position, bytes, count],
    );
    requireClaim(added);
    return position + count;
  }

  /**
   * Removes what was left of builds that were broken off, and lists that nobody can be reading any more: the one before the
   * last is kept for those who began to read it.
   */
  async removeOldParts(): Promise<void> {
    let removed: unknown[];
    do {
      await this.extend();
      removed = await this.#queries.query(
        `${held} delete from crl_part where (ca_id, number, position) in (
           select p.ca_id, p.number, p.position from mine join crl_part p on p.ca_id = mine.ca_id
           where p.number < $3 or p.number > $4 limit ${partsPerDelete})
         returning position`,
        [this.caId, this.#id, this.#numberBefore, this.lastNumber],
      );
    } while (removed.length === partsPerDelete);
  }

  /**
   * Puts the list in the place of the last one, and ends the claim. The next one is not begun for `restMs`, nor within the
   * second of this one: no two lists have the same thisUpdate.
   */
  async publish(list: SignedList, restMs: number): Promise<void> {
    const published = await this.#queries.query(
      `with published as (
         update crl set number = $3, this_update = $4, next_update = $5, size = $6, sha256 = $7, entries = $8,
           claim_id = null,
           claimed_until = greatest(now() + make_interval(secs => $9), $4::timestamptz + interval '1 second'),
           due_at = case when due_at = claimed_until then $4::timestamptz + ${usualInterval} else now() end
         where ca_id = $1 and claim_id = $2 and claimed_until > now() returning ca_id)
       insert into crl_part (ca_id, number, position, bytes)
       select ca_id, $3, frame.position, frame.bytes
       from published, (values (0, $10::bytea), ($11::int, $12::bytea)) as frame (position, bytes)
       returning position`,
      [
        this.caId,
        this.#id,
        list.number,
        list.thisUpdate,
        list.nextUpdate,
        list.size,
        list.sha256,
        list.entries,
        restMs / 1000,
        list.head,
        list.tailPosition,
        list.tail,
      ],
    );
    requireClaim(published);
  }

  /** Ends the claim without a list, which stays due and is not begun for `restMs`. */
  async giveBack(restMs: number): Promise<void> {
    await this.#queries.query(
      `update crl set claim_id = null, claimed_until = now() + make_interval(secs => $3), due_at = now()
       where ca_id = $1 and claim_id = $2`,
      [this.caId, this.#id, restMs / 1000],
    );
  }

  /** Ends the claim without a list: there is none to be any more. A clock that is ahead may have said so: asked again tomorrow. */
  async rest(): Promise<void> {
    await this.#queries.query(
      `update crl set claim_id = null, claimed_until = null, due_at = now() + ${usualInterval}
       where ca_id = $1 and claim_id = $2`,
      [this.caId, this.#id],
    );
  }
}

function requireClaim(rows: readonly unknown[]): void {
  if (rows.length === 0) throw new ClaimLost();
}
