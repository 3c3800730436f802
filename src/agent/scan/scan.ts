import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { type FoundKeytab, type KeytabFileError, type KeytabPath, readKeytabFiles } from "./keytab-file.ts";
import { namedPlaces } from "./named-places.ts";
import { type Place, placeOf } from "./place.ts";
import { Search } from "./search.ts";
import { usualPlaces } from "./usual-places.ts";

/** Where to look for keytabs. */
export interface ScanOptions {
  /**
   * Files, folders with all below them, or patterns of either, in which * and ? stand for characters of one name, and **
   * for any folders.
   */
  readonly roots: readonly string[];
  /** To look also where keytabs usually are, and where the environment and the host's configuration say that they are. */
  readonly defaultPlaces: boolean;
  /** To look below a place also at what is mounted there. */
  readonly otherFileSystems: boolean;
  readonly environment: NodeJS.ProcessEnv;
}

/** What a scan could not read, and why, in words. */
export interface ScanError {
  readonly path: string;
  readonly reason: string;
}

/** What there is on this host. */
export interface Scan {
  /** Ordered by path, each file once. */
  readonly keytabs: readonly FoundKeytab[];
  /**
   * The places that were looked through, those where there is nothing too: what is not in `keytabs`, and is not at an
   * error or below one, is not there.
   */
  readonly roots: readonly string[];
  /** Ordered by path. */
  readonly errors: readonly ScanError[];
  /** Folders in which a change is worth another scan; of large trees not all. */
  readonly folders: readonly string[];
}

/** A file to open. */
interface Candidate extends KeytabPath {
  /** Somebody says that it is a keytab, so that it is a fault when it is not. */
  readonly named: boolean;
}

const mostCandidates = 5000;
const mostErrors = 1000;
/** Of each place, to be told of their changes. */
const mostFolders = 200;

/** Looks for keytabs on this host. Rejects when `signal` is aborted. */
export async function scanHost(options: ScanOptions, signal?: AbortSignal): Promise<Scan> {
  const scanning = new Scanning();
  for (const place of await scanning.placesOf(options)) {
    await scanning.lookThrough(place, new Search(place, { otherFileSystems: options.otherFileSystems, signal }));
  }
  await scanning.readCandidates(signal);
  return scanning.result();
}

class Scanning {
  readonly #candidates = new Map<string, Candidate>();
  readonly #keytabs: FoundKeytab[] = [];
  readonly #roots = new Set<string>();
  readonly #errors = new Map<string, ScanError>();
  readonly #folders = new Set<string>();

  /** Each place once, and first those that stay: a file is reported as found from the first that leads to it. */
  async placesOf({ roots, defaultPlaces, environment }: ScanOptions): Promise<Place[]> {
    const configured = roots.map(placeOf);
    if (!defaultPlaces) return configured;
    const named = await namedPlaces(environment);
    for (const error of named.errors) this.#report(error);
    const all = [...(await usualPlaces()), ...configured, ...named.places];
    return all.filter(({ root }, index) => all.findIndex((place) => place.root === root) === index);
  }

  async lookThrough({ root, base }: Place, search: Search): Promise<void> {
    let complete = true;
    const folders: string[] = [];
    for await (const sight of search.sights()) {
      if (sight.kind === "folder") folders.push(sight.path);
      else if (sight.kind === "file") complete = this.#addCandidate({ ...sight, root }) && complete;
      else complete = this.#report(sight) && complete;
    }
    if (complete && search.complete) this.#roots.add(root);
    // A file is changed in the folder that it is in, and what is not there may come to be there.
    const around = folders.length === 0 && (await isFolder(dirname(base))) ? [dirname(base)] : [];
    for (const folder of [...around, ...folders.slice(0, mostFolders)]) this.#folders.add(folder);
  }

  async readCandidates(signal?: AbortSignal): Promise<void> {
    const files = [...this.#candidates.values()].sort(by(({ path }) => path));
    const inodes = new Set<string>();
    for await (const { file, keytab, error } of readKeytabFiles(files, signal)) {
      if (error !== undefined) this.#addFault(file, error);
      else if (!inodes.has(keytab.inode)) {
        inodes.add(keytab.inode);
        this.#keytabs.push(keytab.found);
        this.#folders.add(dirname(file.path));
      }
    }
  }

  result(): Scan {
    return {
      keytabs: this.#keytabs.sort(by(({ filePath }) => filePath)),
      roots: [...this.#roots].filter((root) => !this.#errors.has(root)),
      errors: [...this.#errors.values()].sort(by(({ path }) => path)),
      folders: [...this.#folders],
    };
  }

  /** Answers whether the place can count as looked through. */
  #addCandidate({ path, root, named }: Candidate): boolean {
    const known = this.#candidates.get(path);
    if (known === undefined && this.#candidates.size === mostCandidates) {
      this.#report({ path: root, reason: `there are more than ${mostCandidates} files to open` });
      return false;
    }
    this.#candidates.set(path, { path, root: known?.root ?? root, named: named || known?.named === true });
    return true;
  }

  #addFault({ path, root, named }: Candidate, { fault, message }: KeytabFileError): void {
    if (fault === "absent" || (fault === "other" && !named)) return;
    if (!this.#report({ path, reason: message })) this.#roots.delete(root);
  }

  /** Answers whether there was room for it: for what is not reported, nobody may take it that nothing is there. */
  #report({ path, reason }: ScanError): boolean {
    if (!this.#errors.has(path) && this.#errors.size < mostErrors) this.#errors.set(path, { path, reason });
    return this.#errors.has(path);
  }
}

/** An order by text, the same on any host. */
const by =
  <T>(text: (value: T) => string) =>
  (one: T, other: T): number =>
    text(one) < text(other) ? -1 : 1;

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
