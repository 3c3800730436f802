import { once } from "node:events";
import pg from "pg";

/** What pg has for it on a connection, and does not declare. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** A COPY from this process: pg itself refuses to send the rows. */
class CopyIn extends pg.Query {
  readonly #rows: Buffer;

  constructor(into: string, rows: Buffer) {
    super(`copy ${into} from stdin`);
    this.#rows = rows;
  }

  handleCopyInResponse(connection: CopyConnection): void {
    connection.sendCopyFromChunk(this.#rows);
    connection.endCopyFrom();
  }
}

/** Copies rows, in PostgreSQL's text format, into a table and columns, as in "t (a, b)". */
export async function copyIn(database: pg.Client, into: string, rows: Buffer): Promise<void> {
  await once(database.query(new CopyIn(into, rows)), "end");
}
