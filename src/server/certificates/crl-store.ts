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
  return { number, thisUpdate, nextUpdate, size, sha256, read: () => readParts(queries, caId, number, 0, size) };
}

/**
 * The parts of a list from a position on until they are `length` bytes, one in memory at a time. Throws when they have been
 * removed: newer lists have been built meanwhile.
 */
export async function* readParts(
  queries: Queries,
  caId: string,
  number: number,
  from: number,
  length: number,
): AsyncGenerator<Buffer> {
  for (let position = from, read = 0; read < length; position += 1) {
    const [part] = await queries.query<{ bytes: Buffer }>(
      "select bytes from crl_part where ca_id = $1 and number = $2 and position = $3",
      [caId, number, position],
    );
    if (part === undefined) throw unavailable("the revocation list was replaced while it was read");
    read += part.bytes.length;
    yield part.bytes;
  }
}
