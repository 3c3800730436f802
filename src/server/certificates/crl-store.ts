import type { PublishedCrl } from "../../ocsp/status-source.ts";
import { millis } from "../db/columns.ts";
import type { Queries } from "../db/database.ts";
import { unavailable } from "../errors.ts";

interface Row {
  readonly number: number;
  readonly thisUpdate: number;
  readonly nextUpdate: number;
  readonly size: number;
  readonly sha256: string;
}

/** How many parts are in memory of whoever sends a list: of those who read slowly there may be many. */
const partsAtOnceToSend = 4;

/**
 * The list of an authority as it was built last; undefined before the first. It can be read until two newer ones have taken
 * its place and a third is begun.
 */
export async function readCrl(queries: Queries, caId: string): Promise<PublishedCrl | undefined> {
  const [row] = await queries.query<Row>(
    `select number::float8 as number, ${millis("this_update")} as "thisUpdate", ${millis("next_update")} as "nextUpdate",
       size::float8 as size, sha256
     from crl where ca_id = $1 and number > 0`,
    [caId],
  );
  if (row === undefined) return undefined;
  const { number, size, sha256 } = row;
  const [thisUpdate, nextUpdate] = [new Date(Math.round(row.thisUpdate)), new Date(Math.round(row.nextUpdate))];
  const read = () => readParts(queries, { caId, number, from: 0, length: size, atOnce: partsAtOnceToSend });
  return { number, thisUpdate, nextUpdate, size, sha256, read };
}

/** Parts of a list from a position on until they are `length` bytes, so many of them in memory at once. */
interface Stretch {
  readonly caId: string;
  readonly number: number;
  readonly from: number;
  readonly length: number;
  readonly atOnce: number;
}

/** The parts of a list, one after the other. Throws when they have been removed: newer lists have been built meanwhile. */
export async function* readParts(
  queries: Queries,
  { caId, number, from, length, atOnce }: Stretch,
): AsyncGenerator<Buffer> {
  let position = from;
  for (let read = 0; read < length; ) {
    const parts = await queries.query<{ position: number; bytes: Buffer }>(
      `select position, bytes from crl_part where ca_id = $1 and number = $2 and position >= $3
       order by position limit $4`,
      [caId, number, position, atOnce],
    );
    if (parts.length === 0) throw replaced();
    for (const part of parts) {
      // They are removed in no particular order.
      if (part.position !== position) throw replaced();
      position += 1;
      read += part.bytes.length;
      yield part.bytes;
    }
  }
}

const replaced = () => unavailable("the revocation list was replaced while it was read");
