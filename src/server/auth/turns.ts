import { unavailable } from "../errors.ts";

/** A call must be refused within 3 s when the database does not answer, and a turn may be as slow as that. */
const longestWaitMs = 2000;

type Line = (() => void)[];

/** One at a time for each name; who comes meanwhile waits, in the order of coming. */
export class Turns {
  /** For each name whose turn somebody has, who waits for it. */
  readonly #lines = new Map<string, Line>();

  /** Throws SERVICE_UNAVAILABLE when the turn does not come within two seconds. */
  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(name);
    if (line === undefined) this.#lines.set(name, []);
    else await waitIn(line);
    try {
      return await work();
    } finally {
      const next = this.#lines.get(name)?.shift();
      if (next === undefined) this.#lines.delete(name);
      else next();
    }
  }
}

function waitIn(line: Line): Promise<void> {
  return new Promise((resolve, reject) => {
    const come = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      line.splice(line.indexOf(come), 1);
      reject(unavailable("too many wait for the same"));
    }, longestWaitMs);
    line.push(come);
  });
}
