/** A part of a scan, as an agent sent it. */
export interface SentPart {
  readonly agentId: string;
  readonly scanId: string;
  /** The hash of each file, by its path. */
  readonly files: ReadonlyMap<string, string>;
  /** Whether it was the last one, so that what the scan has not seen is gone. */
  readonly complete: boolean;
  /** A part without an answer was stored or was not. */
  readonly answered: boolean;
}

/** A row of table discovered_keytab. */
export interface FoundRow {
  readonly agent_id: string;
  readonly file_path: string;
  readonly keytab_hash: string;
  readonly stale: boolean;
}

/** What is known of a file: its hash, that it had it once and is gone, or nothing at all. */
const fresh = (hash: string) => hash;
const stale = (known: string) => (known === nothing || known.endsWith(gone) ? known : known + gone);
const nothing = "nothing";
const gone = ", gone";

/**
 * What agents have told, one part after the other for each of them, and so what the server may know: of each file it
 * keeps everything that is possible, which is one thing again after the answer to a complete scan.
 */
export class ReportHistory {
  /** By agent and path. */
  readonly #possible = new Map<string, Map<string, ReadonlySet<string>>>();
  /** By scan: the paths that it has seen. */
  readonly #seen = new Map<string, Set<string>>();

  add({ agentId, scanId, files, complete, answered }: SentPart): void {
    const possible = this.#possible.get(agentId) ?? new Map<string, ReadonlySet<string>>();
    this.#possible.set(agentId, possible);
    const seen = this.#seen.get(scanId) ?? new Set();
    this.#seen.set(scanId, seen);
    const before = (path: string) => possible.get(path) ?? new Set([nothing]);
    const learn = (path: string, known: readonly string[]) =>
      possible.set(path, new Set(answered ? known : [...before(path), ...known]));
    for (const [path, hash] of files) {
      seen.add(path);
      learn(path, [fresh(hash)]);
    }
    if (!complete) return;
    for (const path of possible.keys()) if (!seen.has(path)) learn(path, [...before(path)].map(stale));
  }

  /** What in these rows, which are all there are, cannot be, in words. */
  contradictions(rows: readonly FoundRow[]): string[] {
    const found = new Map<string, string>(
      rows.map((row) => [`${row.agent_id} ${row.file_path}`, row.stale ? stale(row.keytab_hash) : row.keytab_hash]),
    );
    const expected = new Map<string, ReadonlySet<string>>(
      [...this.#possible].flatMap(([agentId, files]) =>
        [...files].map(([path, known]) => [`${agentId} ${path}`, known] as const),
      ),
    );
    return [...new Set([...found.keys(), ...expected.keys()])].flatMap((file) => {
      const is = found.get(file) ?? nothing;
      const may = expected.get(file) ?? new Set([nothing]);
      return may.has(is) ? [] : [`${file} is ${is}, and may be ${[...may].join(" or ")}`];
    });
  }
}
