import type { Logger } from "pino";
import type { Scan } from "./scan/scan.ts";

/** More of a kind are counted. */
const mostLines = 50;

/** Tells what a scan could not read when that is new, and not with every scan. */
export class Observations {
  readonly #logger: Logger;
  #unreadable: ReadonlyMap<string, string> = new Map();
  readonly #unwatched = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  scanned({ errors, keytabs }: Scan): void {
    const before = this.#unreadable;
    this.#unreadable = new Map(errors.map(({ path, reason }) => [path, reason]));
    const news = errors.filter(({ path, reason }) => before.get(path) !== reason);
    for (const { path, reason } of news.slice(0, mostLines)) this.#logger.warn({ path, reason }, "cannot be read");
    if (news.length > mostLines) this.#logger.warn({ more: news.length - mostLines }, "cannot be read");
    this.#logger.debug({ keytabs: keytabs.length, errors: errors.length }, "scanned");
  }

  /** Changes of such a folder are found at the next interval only. One that cannot be read, or is gone, is known already. */
  cannotWatch(folder: string, code = "unknown"): void {
    if (code === "EACCES" || code === "ENOENT" || this.#unwatched.has(folder)) return;
    this.#unwatched.add(folder);
    if (this.#unwatched.size <= mostLines) this.#logger.warn({ path: folder, reason: code }, "cannot be watched");
  }
}
