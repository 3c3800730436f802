import type { Dirent, Stats } from "node:fs";
import { lstat, opendir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { anyFolders, fits, isWithin, type Place } from "./place.ts";
import { isAbsent, reasonOf } from "./regular-file.ts";

interface FoundFile {
  readonly kind: "file";
  readonly path: string;
  /** It is what the place says, and not only somewhere in it. */
  readonly named: boolean;
}

/** What a search comes across. No path leads over a link. */
export type Sight =
  | FoundFile
  | { readonly kind: "folder"; readonly path: string }
  | { readonly kind: "fault"; readonly path: string; readonly reason: string };

export interface SearchOptions {
  readonly otherFileSystems: boolean;
  readonly signal?: AbortSignal | undefined;
}

interface Target {
  readonly path: string;
  readonly is: Pick<Stats, "isFile" | "isDirectory">;
}

/** A folder that is so many folders below the place is still looked into. */
const deepest = 8;
const mostEntries = 1_000_000;
/** Interfaces of the kernel: to read there can hang, or do something. */
const kernelFolders = ["/proc", "/sys", "/dev"];

/** More than one search looks at. */
class TooMuch extends Error {}

/** Looks through a place for files that may be keytabs by their names, and opens none of them. */
export class Search {
  readonly #place: Place;
  readonly #options: SearchOptions;
  /** What the place is, over all links. */
  #start: Target | undefined;
  #device: number | undefined;
  #entriesLeft = mostEntries;
  #complete = true;

  constructor(place: Place, options: SearchOptions) {
    this.#place = place;
    this.#options = options;
  }

  /** Whether the place has been looked through, but for what is at faults and below them. */
  get complete(): boolean {
    return this.#complete;
  }

  /**
   * What there is, or what the place itself is if it is a file. Links to files are followed, and those to folders where
   * the place names them. That something is not there is no fault.
   */
  async *sights(): AsyncGenerator<Sight> {
    const { root, base, pattern } = this.#place;
    try {
      const start = yield* this.#follow(base);
      this.#start = start;
      if (start?.is.isDirectory()) yield* this.#enter(start.path, pattern, 0);
      else if (start && pattern.length === 0) yield { kind: "file", path: start.path, named: true };
    } catch (error) {
      if (!(error instanceof TooMuch)) throw error;
      this.#complete = false;
      yield { kind: "fault", path: root, reason: error.message };
    }
  }

  /** Looks into a folder for what the pattern names, else for all that is named like a keytab. */
  async *#enter(folder: string, pattern: readonly string[], depth: number): AsyncGenerator<Sight> {
    this.#options.signal?.throwIfAborted();
    if (depth > deepest) return;
    try {
      if (!this.#isOurs(folder, await lstat(folder))) return;
      yield { kind: "folder", path: folder };
      for await (const entry of await opendir(folder, { bufferSize: 256 })) {
        this.#entriesLeft -= 1;
        if (this.#entriesLeft < 0) throw new TooMuch(`there are more than ${mostEntries} files and folders`);
        const path = join(folder, entry.name);
        if (pattern.length > 0) yield* this.#match(path, entry, pattern, depth);
        else if (entry.isDirectory()) yield* this.#enter(path, [], depth + 1);
        else if (isNamedLikeKeytab(entry.name)) yield* fileAt(yield* this.#behind(path, entry));
      }
    } catch (error) {
      yield* this.#faultOf(folder, error);
    }
  }

  async *#match(path: string, entry: Dirent, pattern: readonly string[], depth: number): AsyncGenerator<Sight> {
    const anywhere = pattern[0] === anyFolders;
    const [name = "", ...rest] = anywhere ? pattern.slice(1) : pattern;
    if (anywhere && entry.isDirectory()) yield* this.#enter(path, pattern, depth + 1);
    if (!fits(entry.name, name)) return;
    const target = yield* this.#behind(path, entry);
    if (target?.is.isDirectory()) yield* this.#enter(target.path, rest, depth);
    else if (rest.length === 0) yield* fileAt(target);
  }

  /** What an entry of a folder is, or is a link to. */
  async *#behind(path: string, entry: Dirent): AsyncGenerator<Sight, Target | undefined> {
    return entry.isSymbolicLink() ? yield* this.#follow(path) : { path, is: entry };
  }

  /** What a path leads to over all links, unless that is on another file system. */
  async *#follow(path: string): AsyncGenerator<Sight, Target | undefined> {
    try {
      const target = await realpath(path);
      const is = await lstat(target);
      return this.#isOurs(target, is) ? { path: target, is } : undefined;
    } catch (error) {
      yield* this.#faultOf(path, error);
      return undefined;
    }
  }

  /** The first thing that this is asked of is what the search begins at. */
  #isOurs(path: string, { dev }: Stats): boolean {
    if (kernelFolders.some((folder) => isWithin(path, folder))) return false;
    this.#device ??= dev;
    return this.#options.otherFileSystems || dev === this.#device;
  }

  *#faultOf(path: string, error: unknown): Generator<Sight> {
    if (isAbsent(error)) return;
    const reason = reasonOf(error);
    if (path === (this.#start?.path ?? this.#place.base)) this.#complete = false;
    yield { kind: "fault", path, reason };
  }
}

function* fileAt(target: Target | undefined): Generator<Sight> {
  if (target?.is.isFile()) yield { kind: "file", path: target.path, named: false };
}

/** Also copies that were left beside keytabs, as in `krb5.keytab.bak`: the keys in them are keys. */
export const isNamedLikeKeytab = (name: string) => /keytab|\.kt(ab)?$/i.test(name);
