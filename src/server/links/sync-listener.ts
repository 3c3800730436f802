import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import type { Core } from "../context.ts";
import { syncChannel } from "./sync-queue.ts";

/** Between the loss of the connection and the next try. */
const pauseMs = 1000;

/** Hears over a connection of its own that something is due, the moment that it is committed. */
export class SyncListener {
  readonly #core: Pick<Core, "db" | "logger">;
  readonly #listener: () => void;

  /** `listener` is also called whenever something may have been missed. */
  constructor(core: Pick<Core, "db" | "logger">, listener: () => void) {
    this.#core = core;
    this.#listener = listener;
  }

  /** Listens, again after each loss of the connection, until the signal is aborted. */
  async listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#listenOnce(signal);
      } catch (err) {
        if (!signal.aborted) this.#core.logger.warn({ err }, "changes of links are not heard of; they are looked for");
      }
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #listenOnce(signal: AbortSignal): Promise<void> {
    const session = await this.#core.db.openSession("holdfast-sync");
    session.on("notification", this.#listener);
    try {
      await session.query(`listen ${syncChannel}`);
      this.#listener();
      await once(session, "end", { signal });
    } finally {
      await session.end();
    }
  }
}
