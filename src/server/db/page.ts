import type { Queries } from "./database.ts";

/** A page of a list, and how many items all pages hold. */
export interface Page<Row> {
  readonly rows: Row[];
  readonly pagination: { readonly page: number; readonly perPage: number; readonly total: number };
}

interface PageRequest {
  readonly page?: number | undefined;
  readonly perPage?: number | undefined;
}

/** Conditions of a list, joined by "and", with their bound values. */
export class Conditions {
  readonly values: unknown[] = [];
  readonly #texts: string[] = [];

  /** Adds a condition in which `?` stands for the value; nothing when the value is undefined. */
  add(text: string, value: unknown): this {
    if (value === undefined) return this;
    this.values.push(value);
    this.#texts.push(text.replaceAll("?", `$${this.values.length}`));
    return this;
  }

  /** Adds a condition without a value. */
  require(text: string): this {
    this.#texts.push(text);
    return this;
  }

  /** Adds a condition that the column, or one of several, contains the text, whatever its case. */
  contains(columns: string | readonly string[], text: string | undefined): this {
    if (text === undefined || text === "") return this;
    const either = [columns].flat().map((column) => `${column} ilike ?`);
    return this.add(`(${either.join(" or ")})`, `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`);
  }

  get text(): string {
    return this.#texts.join(" and ");
  }
}

/** One statement for a page and the total, which is right also past the last page (G-12.2). */
export async function fetchPage<Row extends object>(
  queries: Queries,
  select: { readonly columns: string; readonly from: string; readonly where: Conditions; readonly orderBy: string },
  request: PageRequest,
): Promise<Page<Row>> {
  const { page = 1, perPage = 25 } = request;
  const { columns, from, orderBy } = select;
  const { values, text: where } = select.where;
  const count = values.length;
  // What a column takes a query of its own for is looked up for the rows of the page, and not for those before it.
  const table = from.split(" ").at(-1);
  const rows = await queries.query<Row & { total: number; found: boolean | null }>(
    `select t.total, p.* from (select count(*)::int as total from ${from} where ${where}) t
     left join lateral (
       select true as found, ${columns} from (
         select ${table}.* from ${from} where ${where} order by ${orderBy} limit $${count + 1} offset $${count + 2}) ${table}
       order by ${orderBy}
     ) p on true`,
    [...values, perPage, (page - 1) * perPage],
  );
  const total = rows[0]?.total ?? 0;
  return { rows: rows.filter(({ found }) => found === true), pagination: { page, perPage, total } };
}
