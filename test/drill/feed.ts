import { setTimeout as sleep } from "node:timers/promises";
import type { Installation } from "./installation.ts";

/** Between two waves of rotations. */
const everyMs = 700;

/** Asks for a rotation of every secret, wave after wave, until it is stopped. */
export class Feed {
  /** The tasks that the server said it would do. */
  readonly accepted: string[] = [];
  readonly #stopping = new AbortController();
  readonly #over: Promise<void>;

  constructor(installation: Installation) {
    this.#over = this.#run(installation);
    // Told by `stop`.
    this.#over.catch(() => {});
  }

  /** Throws what it failed with. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#over;
  }

  async #run(installation: Installation): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      for (const configId of installation.configIds) {
        const task = await installation.rotate(configId);
        if (task !== undefined) this.accepted.push(task);
      }
      await sleep(everyMs, undefined, { signal }).catch(() => {});
    }
  }
}
