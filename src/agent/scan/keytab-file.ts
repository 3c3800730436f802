import type { BigIntStats } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { type Keytab, KeytabError, maxKeytabBytes, parseKeytab } from "../../standards/keytab.ts";
import { AccountNames } from "./account-names.ts";
import { isAbsent, readRegularFile, reasonOf } from "./regular-file.ts";

/** What there is to say of a keytab file without its keys. */
export interface FoundKeytab {
  /** Absolute; of the file itself, not of a link to it. */
  readonly filePath: string;
  /** The place that it was found from, as in the roots of the scan. */
  readonly root: string;
  /** SHA-256 of the file, 64 lower-case hexadecimal digits. */
  readonly hash: string;
  /** Of the first entry, as MIT prints it. */
  readonly principal: string;
  readonly realm: string;
  /** The key versions of the principal, each once, ascending. */
  readonly kvnos: readonly number[];
  /** The names of all types in the file, each once, in its order. */
  readonly encryptionTypes: readonly string[];
  /** Four octal digits, as in "0640". */
  readonly permissions: string;
  /** As in "root:apache", with numbers for those without a name. */
  readonly owner: string;
}

export interface ReadKeytab {
  readonly found: FoundKeytab;
  readonly bytes: Buffer;
  /** The same for two paths of one file. */
  readonly inode: string;
}

/**
 * Why there is no keytab to be had of a file: it is gone, is another thing, is being written, as it seems, is damaged, or
 * may not be read.
 */
type Fault = "absent" | "other" | "unsettled" | "damaged" | "unreadable";

/** The message says in words what is wrong with the file, and neither its path nor anything that is in it. */
export class KeytabFileError extends Error {
  readonly fault: Fault;

  constructor(fault: Fault, reason: string) {
    super(reason);
    this.fault = fault;
  }
}

/** A file to read, and the place that it was found from. */
export interface KeytabPath {
  readonly path: string;
  readonly root: string;
}

export type Reading<File> = { readonly file: File } & (
  | { readonly keytab: ReadKeytab; readonly error?: never }
  | { readonly error: KeytabFileError; readonly keytab?: never }
);

const tries = 3;
const pauseMs = 1000;
/** What was last changed longer ago than this is not being written. */
const longestWriteMs = 60_000;

/** Reads a file of which the path is no link. Rejects with a KeytabFileError. */
export async function readKeytabFile(path: string, root: string): Promise<ReadKeytab> {
  for await (const { keytab, error } of readKeytabFiles([{ path, root }])) {
    if (error) throw error;
    return keytab;
  }
  throw new Error("a file was not read");
}

/**
 * Reads files. Those that are being written come last: they are read again a second later, all of them, for a file that a
 * key is being added to looks damaged, or as it was before.
 */
export async function* readKeytabFiles<File extends KeytabPath>(
  files: readonly File[],
  signal?: AbortSignal,
): AsyncGenerator<Reading<File>> {
  const names = new AccountNames();
  let unread = files;
  for (let triesLeft = tries - 1; unread.length > 0; triesLeft -= 1) {
    const again: File[] = [];
    for (const file of unread) {
      signal?.throwIfAborted();
      const reading = await readOnce(file, names);
      if (reading.error?.fault === "unsettled" && triesLeft > 0) again.push(file);
      else yield reading;
    }
    unread = again;
    if (unread.length > 0) await pause(pauseMs, undefined, { signal });
  }
}

async function readOnce<File extends KeytabPath>(file: File, names: AccountNames): Promise<Reading<File>> {
  try {
    const { keytab, bytes, stats } = await parseFile(file.path);
    const found = await describe(file, keytab, stats, names);
    return { file, keytab: { found, bytes, inode: `${stats.dev}:${stats.ino}` } };
  } catch (error) {
    if (error instanceof KeytabFileError) return { file, error };
    throw error;
  }
}

async function parseFile(path: string): Promise<{ keytab: Keytab; bytes: Buffer; stats: BigIntStats }> {
  const content = await readRegularFile(path, maxKeytabBytes).catch((error: unknown) => {
    throw new KeytabFileError(isAbsent(error) ? "absent" : "unreadable", reasonOf(error));
  });
  if (content === undefined) throw new KeytabFileError("other", "this is no regular file");
  const { bytes, stats, settled } = content;
  if (!settled) throw new KeytabFileError("unsettled", "the file changes while it is read");
  try {
    return { keytab: parseKeytab(bytes), bytes, stats };
  } catch (error) {
    if (!(error instanceof KeytabError)) throw error;
    throw new KeytabFileError(faultOf(bytes, stats), error.message);
  }
}

function faultOf([first, second]: Uint8Array, { ctimeMs }: BigIntStats): Fault {
  if (first !== 5 || (second !== 1 && second !== 2)) return "other";
  return Date.now() - Number(ctimeMs) < longestWriteMs ? "unsettled" : "damaged";
}

async function describe(
  { path, root }: KeytabPath,
  { entries, principal, realm, hash, encryptionTypes }: Keytab,
  { mode, uid, gid }: BigIntStats,
  names: AccountNames,
): Promise<FoundKeytab> {
  const kvnos = new Set(entries.filter((entry) => entry.principal === principal).map(({ kvno }) => kvno));
  return {
    filePath: path,
    root,
    hash,
    principal,
    realm,
    kvnos: [...kvnos].sort((one, other) => one - other),
    encryptionTypes,
    permissions: (mode & 0o7777n).toString(8).padStart(4, "0"),
    owner: await names.ownerText(uid, gid),
  };
}
