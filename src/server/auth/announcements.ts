import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import type pg from "pg";
import type { Database } from "../db/database.ts";
import type { Logger } from "../logging.ts";
import type { Call } from "../wire/call.ts";

const channel = "holdfast_identities";
const sessionName = "holdfast-announcements";
const shortestPauseMs = 20;
const longestPauseMs = 2000;
/** A replica that has not answered by then hardly answers calls either; what it remembers ends by itself. */
const longestWaitMs = 500;
/** Announcements hold at most 8000 bytes: more than these are said as "everything". */
const mostSubjects = 50;
/** What a replica answers when it has heard. */
const acknowledgement = "heard";

/** What has changed: an identity, a credential, or too much to name. */
export type Subject = `${"identity" | "access_token" | "api_token" | "session"}:${string}` | "everything";

interface Connection {
  /** Settles when it is lost; at once, when there was none to be had. */
  readonly lost: Promise<void>;
}

/**
 * Tells every replica that what it remembers of an identity or a credential is no longer so. PostgreSQL sends the
 * announcements of a transaction when it commits, and never those of one that did not; the call that made the change is
 * answered when every replica has said that it heard.
 */
export class Announcements {
  readonly #db: Database;
  readonly #logger: Logger;
  readonly #hear: (subject: Subject) => void;
  readonly #stopping = new AbortController();
  /** How many replicas have heard the last announcements. */
  readonly #heardBy = new LRUCache<string, number>({ max: 1000 });
  readonly #waiting = new Map<string, () => void>();
  #session: pg.Client | undefined;
  /** The last acknowledgement, which the next one waits for: a connection takes one statement at a time. */
  #acknowledged: Promise<unknown> = Promise.resolve();

  /** `hear` is called for each announcement, also of this replica, and with "everything" when some may have been missed. */
  constructor(db: Database, logger: Logger, hear: (subject: Subject) => void) {
    this.#db = db;
    this.#logger = logger;
    this.#hear = hear;
  }

  /** While it is false nothing may be remembered: a change would not be heard. */
  get listening(): boolean {
    return this.#session !== undefined;
  }

  /** Listens from now on, and again after each loss of the connection. Resolves when the first try is over. */
  async start(): Promise<void> {
    void this.#keepListening(await this.#listen());
  }

  stop(): void {
    this.#stopping.abort();
    void this.#session?.end().catch(() => {});
  }

  /** Announces with the call's transaction. */
  async announce(call: Call, subjects: readonly Subject[]): Promise<void> {
    const said: readonly Subject[] = subjects.length > mostSubjects ? ["everything"] : subjects;
    if (said.length === 0) return;
    const id = randomUUID();
    await call.query("select pg_notify($1, $2)", [channel, [id, ...said].join(" ")]);
    call.afterCommit(async () => {
      for (const subject of said) this.#hear(subject);
      // The change is made: that somebody may not have heard of it yet is no reason to say it failed.
      await this.#untilAllHeard(id).catch(() => {});
    });
  }

  async #untilAllHeard(id: string): Promise<void> {
    const deadline = sleep(longestWaitMs, undefined, { ref: false });
    const [row] = await this.#db.query<{ replicas: number }>(
      "select count(*)::int as replicas from pg_stat_activity where datname = current_database() and application_name = $1",
      [sessionName],
    );
    const replicas = row?.replicas ?? 0;
    const allHeard = async () => {
      while ((this.#heardBy.get(id) ?? 0) < replicas) {
        await new Promise<void>((resolve) => this.#waiting.set(id, resolve));
      }
    };
    await Promise.race([allHeard(), deadline]);
    this.#waiting.delete(id);
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
    try {
      const session = await this.#db.openSession(sessionName);
      // PostgreSQL says that it ends a connection before it does.
      const lost = new Promise<void>((resolve) => session.once("end", resolve).once("error", () => resolve()));
      session.on("notification", ({ payload = "" }) => this.#receive(session, payload));
      await session.query(`listen ${channel}`);
      this.#hear("everything");
      if (this.#stopping.signal.aborted) await session.end();
      else this.#session = session;
      return { lost };
    } catch (err) {
      this.#logger.debug({ err }, "announcements cannot be heard; nothing is remembered until they can");
      return { lost: Promise.resolve() };
    }
  }

  #receive(session: pg.Client, payload: string): void {
    const [id = "", ...subjects] = payload.split(" ");
    if (subjects[0] === acknowledgement) {
      this.#heardBy.set(id, (this.#heardBy.get(id) ?? 0) + 1);
      this.#waiting.get(id)?.();
      return;
    }
    for (const subject of subjects) this.#hear(subject as Subject);
    const acknowledge = () => session.query("select pg_notify($1, $2)", [channel, `${id} ${acknowledgement}`]);
    this.#acknowledged = this.#acknowledged.then(acknowledge).catch(() => {});
  }
}
