import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import type pg from "pg";
import type { Database } from "../db/database.ts";
import { Listening } from "../db/listening.ts";
import type { Logger } from "../logging.ts";
import type { Call } from "../wire/call.ts";

const channel = "holdfast_identities";
const sessionName = "holdfast-announcements";
/** A replica that has not answered by then hardly answers calls either; what it remembers ends by itself. */
const longestWaitMs = 500;
/** Announcements hold at most 8000 bytes: more than these are said as "everything". */
const mostSubjects = 50;
/** What a replica answers when it has heard. */
const acknowledgement = "heard";

/** What has changed: an identity, a credential, or too much to name. */
export type Subject = `${"identity" | "access_token" | "api_token" | "session"}:${string}` | "everything";

/**
 * Tells every replica that what it remembers of an identity or a credential is no longer so. PostgreSQL sends the
 * announcements of a transaction when it commits, and never those of one that did not; the call that made the change is
 * answered when every replica has said that it heard.
 */
export class Announcements {
  readonly #db: Database;
  readonly #listening: Listening;
  readonly #hear: (subject: Subject) => void;
  /** How many replicas have heard the last announcements. */
  readonly #heardBy = new LRUCache<string, number>({ max: 1000 });
  readonly #waiting = new Map<string, () => void>();
  /** The last acknowledgement, which the next one waits for: a connection takes one statement at a time. */
  #acknowledged: Promise<unknown> = Promise.resolve();

  /** `hear` is called for each announcement, also of this replica, and with "everything" when some may have been missed. */
  constructor(db: Database, logger: Logger, hear: (subject: Subject) => void) {
    this.#db = db;
    this.#hear = hear;
    this.#listening = new Listening(
      {
        name: channel,
        open: () => db.openSession(sessionName),
        notified: (payload, session) => this.#receive(session, payload),
        subscribed: () => hear("everything"),
      },
      logger,
    );
  }

  /** While it is false nothing may be remembered: a change would not be heard. */
  get listening(): boolean {
    return this.#listening.listens;
  }

  /** Listens from now on, and again after each loss of the connection. Resolves when the first try is over. */
  start(): Promise<void> {
    return this.#listening.start();
  }

  stop(): void {
    this.#listening.stop();
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
