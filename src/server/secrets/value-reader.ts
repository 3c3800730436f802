import { Batches } from "../db/batches.ts";
import type { Database } from "../db/database.ts";
import { unavailable } from "../errors.ts";
import { isExpired, type SecretFields, selectFields } from "./secret-record.ts";

/** A version of an active secret, still sealed, with the wrapped key that opens it. */
export interface SealedValue extends SecretFields {
  readonly shownVersion: number;
  readonly sealed: Buffer;
  readonly wrapped: Buffer;
}

interface Question {
  readonly organizationId: string;
  readonly id: string;
  /** The current version, unless one is named. */
  readonly version: number | undefined;
}

/**
 * One statement for all reads of one turn: each finds by primary keys what its own organization has. The arrays come
 * out of a subquery that is not flattened: if PostgreSQL saw how long they are, it would plan the statement anew each
 * time, which costs three times as much as running it.
 */
const selectValues = `select q.position::int, ${selectFields}, v.version as "shownVersion", v.sealed, k.wrapped
  from (select $1::uuid[] as ids, $2::uuid[] as organizations, $3::int[] as versions offset 0) as asked,
    unnest(asked.ids, asked.organizations, asked.versions) with ordinality as q (id, organization_id, version, position)
  join secret s on s.id = q.id and s.organization_id = q.organization_id
  join secret_version v on v.secret_id = s.id and v.version = coalesce(q.version, s.version)
  join data_key k on k.record_id = s.id
  where s.status = 'active' and not ${isExpired}`;

/** Reads values; those that are asked for within one turn of the event loop share one statement. */
export class ValueReader {
  readonly #batches: Batches<Question, SealedValue | undefined>;

  constructor(db: Database) {
    const read = async (questions: readonly Question[]): Promise<(SealedValue | undefined)[]> => {
      const rows = await db.query<SealedValue & { position: number }>(selectValues, [
        questions.map(({ id }) => id),
        questions.map(({ organizationId }) => organizationId),
        questions.map(({ version }) => version ?? null),
      ]);
      const byPosition = new Map(rows.map((row) => [row.position, row]));
      return questions.map((_, index) => byPosition.get(index + 1));
    };
    this.#batches = new Batches(read, { mostInFlight: 4, mostInBatch: 100, mostWaiting: 50_000 });
  }

  /** Undefined for what is not there, not active, or another organization's. */
  async read(question: Question): Promise<SealedValue | undefined> {
    if (this.#batches.isFull) throw unavailable("the database cannot keep up");
    return this.#batches.add(question);
  }
}
