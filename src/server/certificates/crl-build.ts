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
const entriesPerPart = 4000;

/** After which relying parties want a newer list (gaps G-13.3). */
const lifetimeMs = 7 * 86_400_000;

/** The next list of an authority is begun as long after a build as that took, but not later than this. */
const longestRestMs = 60_000;

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
  const number = claim.lastNumber + 1;
  await claim.removeOldParts();
  const entries = await keepEntries(db, claim, number, signal);
  const thisUpdate = new Date(claim.at.getTime() - claim.at.getUTCMilliseconds());
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
    Math.min(performance.now() - beganAt, longestRestMs),
  );
  return { number, entries: entries.count, size };
}

/** Keeps what is revoked at this moment; what is revoked meanwhile is there or has a further list asked for. */
async function keepEntries(db: Queries, claim: CrlClaim, number: number, signal: AbortSignal): Promise<KeptEntries> {
  const { caId, lastUpdate } = claim;
  let [count, length, nextPosition] = [0, 0, 1];
  for await (const page of revokedPages(db, caId)) {
    signal.throwIfAborted();
    const listed = page.filter((revoked) => isListed(revoked, lastUpdate));
    if (listed.length === 0) {
      await claim.extend();
      continue;
    }
    const part = encodeEntries(listed.map(entryOf));
    await claim.addPart(number, nextPosition, part);
    count += listed.length;
    length += part.length;
    nextPosition += 1;
  }
  const read = async function* () {
    for await (const part of readParts(db, caId, number, 1, length)) {
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
      [caId, last, entriesPerPart],
    );
    last = page.at(-1)?.serialNumber ?? last;
    if (page.length > 0) yield page;
  } while (page.length === entriesPerPart);
}

/** What has expired stays until there was one list after its end, counted from when that list was begun (RFC 5280 section 5). */
const isListed = ({ notAfter }: Revoked, lastUpdate: Date | undefined) =>
  lastUpdate === undefined || notAfter >= lastUpdate.getTime();

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
