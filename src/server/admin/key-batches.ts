import type { Queries } from "../db/database.ts";
import { organizationKeys, serviceKeys, type WrappedKeys } from "../seal/wrapped-keys.ts";

/** Also how many questions a key service gets at once. */
const batchSize = 32;
/** The service keys last: while one of them is wrapped by the previous master key, no server starts without that. */
const tables: readonly WrappedKeys[] = [organizationKeys, serviceKeys];

/** A key as the database has it. */
export interface WrappedKey {
  readonly id: string;
  readonly wrapped: Buffer;
}

/** Some keys of one table. */
export interface KeyBatch {
  readonly keys: WrappedKeys;
  readonly rows: readonly WrappedKey[];
}

export async function countKeys(database: Queries): Promise<number> {
  const counts = tables.map(({ table }) => `(select count(*) from ${table})`);
  const [row] = await database.query<{ total: string }>(`select ${counts.join(" + ")} as total`, []);
  return Number(row?.total);
}

/** Every key that a master key wraps, those too that are made meanwhile. Throws the signal's reason between two batches. */
export async function* keyBatches(database: Queries, signal: AbortSignal): AsyncGenerator<KeyBatch> {
  for (const keys of tables) {
    const { table, id, type } = keys;
    const next = `select ${id} as id, wrapped from ${table} where ${id} > $1::${type} order by ${id} limit ${batchSize}`;
    let last: string | undefined = keys.lowest;
    while (last !== undefined) {
      signal.throwIfAborted();
      const rows: WrappedKey[] = await database.query<WrappedKey>(next, [last]);
      if (rows.length > 0) yield { keys, rows };
      last = rows.at(-1)?.id;
    }
  }
}

/** Replaces keys in one statement, those only that are still as they were read; answers how many. */
export async function replaceKeys(
  database: Queries,
  { table, id, type }: WrappedKeys,
  changes: readonly { readonly row: WrappedKey; readonly wrapped: Buffer }[],
): Promise<number> {
  const replaced = await database.query(
    `update ${table} set wrapped = change.wrapped
     from unnest($1::${type}[], $2::bytea[], $3::bytea[]) as change (id, was, wrapped)
     where ${table}.${id} = change.id and ${table}.wrapped = change.was returning 1`,
    [changes.map(({ row }) => row.id), changes.map(({ row }) => row.wrapped), changes.map(({ wrapped }) => wrapped)],
  );
  return replaced.length;
}
