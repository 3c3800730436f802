import { ConfigError } from "../config.ts";
import type { Queries } from "../db/database.ts";
import { SealBroken } from "../seal/cipher.ts";
import type { KeyWrapping } from "../seal/key-wrapping.ts";
import { type Installation, withInstallation } from "./installation.ts";
import { countKeys, keyBatches, replaceKeys } from "./key-batches.ts";
import { patient } from "./patient-key.ts";
import { counting, type Progress } from "./progress.ts";

const mostExamples = 10;

export interface RewrapOptions {
  /** Hears how far it is, after each batch. */
  readonly progress: (state: Progress) => void;
  /** Stops it between two batches; it then rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

export interface Summary {
  /** Keys that this run has wrapped anew. */
  readonly rewrapped: number;
  /** Keys in the database at the end. */
  readonly total: number;
  /** Of these, not opened by the current master key: above 0, the change is not finished. */
  readonly unopened: number;
  /** Where the first few of those belong. */
  readonly examples: readonly string[];
}

/**
 * Wraps by the current master key what the previous one wraps, then counts the keys that the current one does not open.
 * Servers that have both go on meanwhile. It may be stopped or killed at any moment, and run again. Throws a ConfigError
 * when a previous master key is needed and not set, and what withInstallation() throws.
 */
export function rewrap(options: RewrapOptions): Promise<Summary> {
  return withInstallation((installation) => rewrapIn(installation, options));
}

/** The same in an installation that is open. */
export async function rewrapIn({ database, masterKey }: Installation, options: RewrapOptions): Promise<Summary> {
  const current = patient(masterKey.current, options.signal);
  const previous = masterKey.previous && patient(masterKey.previous, options.signal);
  const rewrapped = previous === undefined ? 0 : await rewrapAll(database, current, previous, options);
  const checked = await check(database, current, options);
  if (previous === undefined && checked.unopened > 0) {
    throw new ConfigError(
      `SERVICE_MASTER_KEY_PREVIOUS is needed: ${current.setting} does not open ${checked.unopened} of ${checked.total} keys`,
    );
  }
  return { rewrapped, ...checked };
}

async function rewrapAll(
  database: Queries,
  current: KeyWrapping,
  previous: KeyWrapping,
  { progress, signal }: RewrapOptions,
): Promise<number> {
  const advance = counting("rewrapping", await countKeys(database), progress);
  let rewrapped = 0;
  for await (const { keys, rows } of keyBatches(database, signal)) {
    const renewals = await Promise.all(
      rows.map(({ id, wrapped }) => renewed(current, previous, keys.place(id), wrapped)),
    );
    const changes = rows.flatMap((row, at) => {
      const wrapped = renewals[at];
      return wrapped === undefined ? [] : [{ row, wrapped }];
    });
    if (changes.length > 0) rewrapped += await replaceKeys(database, keys, changes);
    advance(rows.length);
  }
  return rewrapped;
}

/** The key wrapped by the current master key; undefined when it is already, or when neither opens it. */
async function renewed(
  current: KeyWrapping,
  previous: KeyWrapping,
  place: string,
  wrapped: Buffer,
): Promise<Buffer | undefined> {
  if ((await open(current, place, wrapped)) !== undefined) return undefined;
  const key = await open(previous, place, wrapped);
  if (key === undefined) return undefined;
  const next = await current.wrap(place, key);
  // What replaces the only way to a key has been tried.
  if ((await open(current, place, next))?.equals(key) !== true) {
    throw new Error(`${current.setting} does not open what it wrapped`);
  }
  return next;
}

async function check(database: Queries, current: KeyWrapping, { progress, signal }: RewrapOptions) {
  const advance = counting("checking", await countKeys(database), progress);
  const unopened: string[] = [];
  let total = 0;
  for await (const { keys, rows } of keyBatches(database, signal)) {
    const places = rows.map(({ id }) => keys.place(id));
    const opened = await Promise.all(rows.map(({ wrapped }, at) => open(current, places[at] as string, wrapped)));
    unopened.push(...places.filter((_, at) => opened[at] === undefined));
    total += rows.length;
    advance(rows.length);
  }
  return { total, unopened: unopened.length, examples: unopened.slice(0, mostExamples) };
}

async function open(key: KeyWrapping, place: string, wrapped: Buffer): Promise<Buffer | undefined> {
  try {
    return await key.unwrap(place, wrapped);
  } catch (error) {
    if (error instanceof SealBroken) return undefined;
    throw error;
  }
}
