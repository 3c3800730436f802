import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../logging.ts";

const shortestPauseMs = 20;
const longestPauseMs = 2000;

/** What is heard of a channel, and how. */
export interface Channel {
  readonly name: string;
  /** Opens the session that listens, with a listener of its errors. */
  open(): Promise<pg.Client>;
  /** Called with each notification, and the session that heard it. */
  notified(payload: string, session: pg.Client): void;
  /** Called when a session begins to listen: what was notified before, nobody has heard. */
  subscribed(): void;
}

interface Connection {
  /** Settles when it is lost; at once, when there was none to be had. */
  readonly lost: Promise<void>;
}

/** Listens to a channel of PostgreSQL until it is stopped, over one session, which is opened anew whenever it is lost. */
export class Listening {
  readonly #channel: Channel;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  #session: pg.Client | undefined;
  /** An outage is told of once. */
  #told = false;

  constructor(channel: Channel, logger: Logger) {
    this.#channel = channel;
    this.#logger = logger;
  }

  /** While it is false, what is notified is missed. */
  get listens(): boolean {
    return this.#session !== undefined;
  }

  /** Listens from now on, and again after each loss of the connection. Resolves when the first try is over. */
  async start(): Promise<void> {
    void this.#keepListening(await this.#listen());
  }

  /** Does not wait for PostgreSQL, which may not answer any more. */
  stop(): void {
    this.#stopping.abort();
    void this.#session?.end().catch(() => {});
  }

  async #keepListening(first: Connection): Promise<void> {
    const { signal } = this.#stopping;
    let connection = first;
    for (let pauseMs = shortestPauseMs; !signal.aborted; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      await connection.lost;
      if (this.#session !== undefined) pauseMs = shortestPauseMs;
      this.#session = undefined;
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      if (!signal.aborted) connection = await this.#listen();
    }
  }

  async #listen(): Promise<Connection> {
    let session: pg.Client | undefined;
    try {
      session = await this.#channel.open();
      const lost = lossOf(session);
      await this.#subscribe(session);
      return { lost };
    } catch (err) {
      void session?.end().catch(() => {});
      this.#tell(err);
      return { lost: Promise.resolve() };
    }
  }

  #tell(err: unknown): void {
    if (this.#told || this.#stopping.signal.aborted) return;
    this.#told = true;
    this.#logger.warn({ err, channel: this.#channel.name }, "a channel cannot be heard, and is tried again and again");
  }

  async #subscribe(session: pg.Client): Promise<void> {
    const channel = this.#channel;
    session.on("notification", ({ payload = "" }) => channel.notified(payload, session));
    await session.query(`listen ${session.escapeIdentifier(channel.name)}`);
    if (this.#stopping.signal.aborted) return session.end();
    this.#session = session;
    this.#told = false;
    channel.subscribed();
  }
}

/** PostgreSQL says that it ends a connection before it does, so an error is the end. */
async function lossOf(session: pg.Client): Promise<void> {
  await new Promise<void>((resolve) => session.once("end", resolve).once("error", () => resolve()));
  await session.end().catch(() => {});
}
