import { readdir } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { attempt, configurationText } from "./configuration-text.ts";
import type { ScanError } from "./scan.ts";

/** A relation of a section, outside of all braces. */
interface Relation {
  readonly section: string;
  readonly name: string;
  readonly value: string;
}

/** What a line of a file adds to the configuration. */
type Item = Relation | { readonly include: string } | { readonly includeFolder: string };

const mostFiles = 200;

/** The relations of krb5.conf(5) in the order of the files and their includes: of one name, MIT takes the first. */
export class Krb5Conf {
  /** What could not be read. */
  readonly errors: ScanError[] = [];
  readonly #relations: Relation[] = [];
  readonly #seen = new Set<string>();

  /** Reads the files that the variable KRB5_CONFIG lists, else the usual one. */
  static async read({ KRB5_CONFIG: paths }: NodeJS.ProcessEnv): Promise<Krb5Conf> {
    const configuration = new Krb5Conf();
    for (const path of (paths || "/etc/krb5.conf").split(":")) await configuration.#include(path);
    return configuration;
  }

  /** The value that counts. */
  valueOf(section: string, name: string): string | undefined {
    return this.#relations.find((relation) => relation.section === section && relation.name === name)?.value;
  }

  async #include(path: string): Promise<void> {
    // A file that was read before has nothing to add, and may include itself.
    if (!isAbsolute(path) || this.#seen.has(path) || this.#seen.size === mostFiles) return;
    this.#seen.add(path);
    for (const item of itemsOf(await configurationText(path, this.errors))) {
      if ("include" in item) await this.#include(item.include);
      else if ("includeFolder" in item) await this.#includeFolder(item.includeFolder);
      else this.#relations.push(item);
    }
  }

  async #includeFolder(folder: string): Promise<void> {
    if (!isAbsolute(folder)) return;
    const names = (await attempt(folder, () => readdir(folder), this.errors)) ?? [];
    const included = names.filter((name) => /^[A-Za-z0-9_-]+$|^[^.].*\.conf$/.test(name));
    for (const name of included.sort()) await this.#include(join(folder, name));
  }
}

/** The items of a text in the syntax of MIT's profiles. A line that has no meaning there has none here. */
function* itemsOf(text: string): Generator<Item> {
  let section = "";
  let depth = 0;
  for (const line of text.split(/\r?\n/)) {
    const [, directive, path = ""] = /^(include|includedir)\s+(\S.*)$/.exec(line) ?? [];
    const [, header] = /^\s*\[([^\]]*)\]/.exec(line) ?? [];
    const [, name, written = ""] = /^\s*([^\s=;#{}[\]*][^\s=*]*)\*?\s*=\s*(.*)$/.exec(line) ?? [];
    if (directive === "include") yield { include: path.trimEnd() };
    else if (directive === "includedir") yield { includeFolder: path.trimEnd() };
    else if (header !== undefined) [section, depth] = [header, 0];
    else if (/^\s*\}/.test(line)) depth = Math.max(depth - 1, 0);
    // The brace of a subsection may have a line of its own.
    else if (/^\s*\{/.test(line) || written.startsWith("{")) depth += 1;
    else if (name !== undefined && depth === 0) yield { section, name, value: valueOf(written) };
  }
}

function valueOf(written: string): string {
  const [, quoted] = /^"((?:[^"\\]|\\.)*)"?/.exec(written) ?? [];
  if (quoted === undefined) return written.trimEnd();
  const escapes: Record<string, string> = { n: "\n", t: "\t", b: "\b" };
  return quoted.replace(/\\(.)/g, (_, character: string) => escapes[character] ?? character);
}
