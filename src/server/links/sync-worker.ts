import { setTimeout as sleep } from "node:timers/promises";
import { TargetError } from "../../targets/target-error.ts";
import type { Core } from "../context.ts";
import { Listening } from "../db/listening.ts";
import { attempt } from "./attempt.ts";
import { claimDue, type DueLink } from "./claims.ts";
import { giveBack, noteConfirmed, noteFailed } from "./outcomes.ts";
import { Reach } from "./reach.ts";
import { syncChannel } from "./sync-queue.ts";

/** Attempts of one process at a time. */
const mostAtOnce = 64;

/** How often what has become due by itself is looked for. */
const usualPollMs = 1000;

/** How long an end waits for what runs, which is aborted. */
const longestEndMs = 1000;

/**
 * Brings secrets to where links lead. All replicas that run jobs do it, each what it gets hold of; the row of a link says
 * all that there is to know, so that any of them goes on where another one has ended.
 */
export class SyncWorker {
  readonly #core: Core;
  readonly #reach: Reach;
  /** Tells that something is due the moment that it is committed. */
  readonly #listening: Listening;
  readonly #pollMs: number;
  readonly #stopping = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #woken = Promise.withResolvers<void>();
  /** The host behind which the next claims are made. */
  #after = "";
  #loops: Promise<unknown> | undefined;

  constructor(core: Core, pollMs = usualPollMs) {
    this.#core = core;
    this.#reach = new Reach(core);
    this.#pollMs = pollMs;
    const open = () => core.db.openSession("holdfast-sync");
    const wake = () => this.#woken.resolve();
    this.#listening = new Listening({ name: syncChannel, open, notified: wake, subscribed: wake }, core.logger);
  }

  start(): void {
    this.#loops ??= Promise.all([this.#listening.start(), this.#work()]);
  }

  /** Aborts what runs and gives it back. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#listening.stop();
    await Promise.race([this.#end(), sleep(longestEndMs, undefined, { ref: false })]);
  }

  /** Nothing is started any more once the loops have ended. */
  async #end(): Promise<void> {
    await this.#loops;
    await Promise.all(this.#running);
  }

  async #work(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#woken = Promise.withResolvers();
      await this.#startDue().catch((err: unknown) => {
        if (!signal.aborted) this.#core.logger.warn({ err }, "links cannot be looked for and will be again");
      });
      await this.#wait();
    }
  }

  /** Until there may be something to do. */
  async #wait(): Promise<void> {
    const over = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, over.signal]);
    const pause = sleep(this.#pollMs, undefined, { signal, ref: false }).catch(() => {});
    await Promise.race([this.#woken.promise, pause]);
    over.abort();
  }

  /** Starts what is due, as much as there is room for, at all hosts one after the other. */
  async #startDue(): Promise<void> {
    const { signal } = this.#stopping;
    let begunAnew = this.#after === "";
    while (!signal.aborted && this.#running.size < mostAtOnce) {
      const { links, next } = await claimDue(this.#core, this.#after, mostAtOnce - this.#running.size);
      for (const link of links) this.#start(link);
      this.#after = next ?? "";
      if (next !== undefined) continue;
      if (begunAnew) return;
      begunAnew = true;
    }
  }

  #start(link: DueLink): void {
    const running = this.#perform(link).finally(() => {
      this.#running.delete(running);
      // There is room again, here and at the host.
      this.#woken.resolve();
    });
    this.#running.add(running);
  }

  async #perform(link: DueLink): Promise<void> {
    const outcome = await this.#attempt(link);
    const about = { link_id: link.id, secret_id: link.secretId, integration: link.integration };
    try {
      if (outcome === "confirmed") await noteConfirmed(this.#core, link);
      else if (outcome === "stopped") await giveBack(this.#core, link);
      else await noteFailed(this.#core, link, outcome);
    } catch (err) {
      this.#core.logger.warn({ ...about, err }, "what came of a link cannot be noted; it will be written again");
    }
    if (outcome instanceof TargetError) {
      const { code, message, cause } = outcome;
      this.#core.logger.info(
        { ...about, attempt: link.attempt, code, reason: message, err: cause },
        "link not written",
      );
    }
  }

  async #attempt(link: DueLink): Promise<"confirmed" | "stopped" | TargetError> {
    try {
      await attempt((signal) => this.#reach.write(link, signal), this.#stopping.signal);
      return "confirmed";
    } catch (error) {
      return error instanceof TargetError ? error : "stopped";
    }
  }
}
