import { createHash } from "node:crypto";
import { type CrlEntry, type EncodedEntries, encodeEntries, signCrl } from "../../standards/x509/crl.ts";
import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import { millis } from "../db/columns.ts";
import type { Queries } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { openAuthority } from "./authority-key.ts";
import type { CrlClaim } from "./crl-claim.ts";
import { readParts } from "./crl-store.ts";

/** Read, encoded and kept in one go: few enough that others wait for no more than some milliseconds. */
const entriesPerPage = 2000;

/** In memory at once, of those that are read again. */
const partsAtOnce = 4;

/** After which relying parties want a newer list (gaps G-13.3). */
const lifetimeMs = 7 * 86_400_000;

/**
 * The next list of an authority is begun as long after a build as that took, and as somebody needs who reads a MiB in a
 * second: two lists later this one is removed. But not later than HTTP caches ask for the next one.
 */
const octetsReadPerMs = 2 ** 20 / 1000;
const longestRestMs = 300_000;

/** For as long an entry stays on lists after the end of its certificate. */
const expiredForMs = 86_400_000;

/** What was built. */
interface Built {
  readonly number: number;
  readonly entries: number;
  readonly size: number;
}

interface KeptEntries extends EncodedEntries {
  readonly count: number;
  /** What follows the position of the last of them. */
  readonly nextPosition: number;
}

interface Revoked {
  readonly serialNumber: string;
  readonly revokedAt: number;
  readonly notAfter: number;
  readonly reason: RevocationReason | null;
}

/**
 * Builds a list and puts it in the place of the last one, which stands until then. Entries are kept as they are read, then
 * read again to be signed, and once more for the hash of the whole, whose first octets are known only then: a list of any
 * length takes no more memory than a part of it. Throws ClaimLost, and once the signal is aborted.
 */
export async function buildCrl(
  { db, seal }: { readonly db: Queries; readonly seal: Seal },
  claim: CrlClaim,
  signal: AbortSignal,
): Promise<Built> {
  const beganAt = performance.now();
  const authority = await openAuthority(db, seal, claim.organizationId, claim.caId);
  if (authority === undefined) throw new Error("there is no such authority");
  const thisUpdate = new Date(claim.at.getTime() - claim.at.getUTCMilliseconds());
  const number = numberOf(claim, thisUpdate);
  await claim.removeOldParts();
  const entries = await keepEntries(db, claim, number, signal);
  const nextUpdate = new Date(thisUpdate.getTime() + lifetimeMs);
  const { head, tail } = await signCrl(authority.issuer, { number, thisUpdate, nextUpdate, entries });
  const size = head.length + entries.length + tail.length;
  const sha256 = await hashOf(head, entries, tail);
  await claim.publish(
    {
      number,
      thisUpdate,
      nextUpdate,
      size,
      sha256,
      entries: entries.count,
      head,
      tail,
      tailPosition: entries.nextPosition,
    },
    Math.min(Math.max(performance.now() - beganAt, size / octetsReadPerMs), longestRestMs),
  );
  return { number, entries: entries.count, size };
}

/**
 * cRLNumber: the time in seconds, so that it is greater than that of all lists before also where the database has been
 * restored from an old copy, and one more than the last where the clock has been set back (RFC 5280 section 5.2.3).
 */
const numberOf = ({ lastNumber }: CrlClaim, thisUpdate: Date) => Math.max(lastNumber + 1, thisUpdate.getTime() / 1000);

/** Keeps what is revoked at this moment; what is revoked meanwhile is there or has a further list asked for. */
async function keepEntries(db: Queries, claim: CrlClaim, number: number, signal: AbortSignal): Promise<KeptEntries> {
  const { caId } = claim;
  const leftBefore = leaving(claim);
  let [count, length, nextPosition] = [0, 0, 1];
  for await (const page of revokedPages(db, caId)) {
    signal.throwIfAborted();
    const listed = page.filter(({ notAfter }) => notAfter >= leftBefore);
    if (listed.length === 0) {
      await claim.extend();
      continue;
    }
    const bytes = encodeEntries(listed.map(entryOf));
    nextPosition = await claim.addParts(number, nextPosition, bytes);
    count += listed.length;
    length += bytes.length;
  }
  const read = async function* () {
    for await (const part of readParts(db, { caId, number, from: 1, length, atOnce: partsAtOnce })) {
      signal.throwIfAborted();
      await claim.extend();
      yield part;
    }
  };
  return { count, length, nextPosition, read };
}

/** In the order of their serial numbers. The statements are bounded also where nearly all have expired. */
async function* revokedPages(queries: Queries, caId: string): AsyncGenerator<Revoked[]> {
  let page: Revoked[];
  let last = "";
  do {
    page = await queries.query<Revoked>(
      `select serial_number as "serialNumber", ${millis("revoked_at")} as "revokedAt", ${millis("not_after")} as "notAfter",
         revocation_reason as reason
       from certificate_status where ca_id = $1 and revoked_at is not null and serial_number > $2
       order by serial_number limit $3`,
      [caId, last, entriesPerPage],
    );
    last = page.at(-1)?.serialNumber ?? last;
    if (page.length > 0) yield page;
  } while (page.length === entriesPerPage);
}

/**
 * Certificates that ended before then leave the list: when there was one a day after their end, so that they were on one
 * that was due by itself (RFC 5280 section 5), and nobody whose clock is slow takes one for valid again.
 */
const leaving = ({ at, lastUpdate }: CrlClaim) =>
  lastUpdate === undefined ? 0 : Math.min(lastUpdate.getTime(), at.getTime()) - expiredForMs;

const entryOf = ({ serialNumber, revokedAt, reason }: Revoked): CrlEntry => ({
  serialNumber,
  revokedAt: new Date(Math.round(revokedAt)),
  reason: reason ?? "unspecified",
});

async function hashOf(head: Buffer, entries: EncodedEntries, tail: Buffer): Promise<string> {
  const hash = createHash("sha256").update(head);
  for await (const part of entries.read()) hash.update(part);
  return hash.update(tail).digest("hex");
}
