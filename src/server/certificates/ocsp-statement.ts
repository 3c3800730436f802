import { Batches } from "../db/batches.ts";
import type { Queries } from "../db/database.ts";
import { unavailable } from "../errors.ts";

/** Few rounds of statements: who waits behind some that are not answered must be told within a few seconds. */
const limits = { mostInFlight: 4, mostInBatch: 500, mostWaiting: 2000 };

/** A statement that questions of one turn of the event loop share; each of its rows answers one of them. */
export class OcspStatement<Question, Row extends { readonly position: number }> {
  readonly #batches: Batches<Question, Row | undefined>;

  /** `valuesOf` makes the bound values of many questions; `position` of a row is that of its question, from 1 on. */
  constructor(db: Queries, text: string, valuesOf: (questions: readonly Question[]) => readonly unknown[]) {
    this.#batches = new Batches(async (questions) => {
      const rows = await db.query<Row>(text, valuesOf(questions));
      const byPosition = new Map(rows.map((row) => [row.position, row]));
      return questions.map((_, index) => byPosition.get(index + 1));
    }, limits);
  }

  /** Undefined when no row answers. */
  async ask(question: Question): Promise<Row | undefined> {
    if (this.#batches.isFull) throw unavailable("the database cannot keep up");
    return this.#batches.add(question);
  }
}
