import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Core } from "../context.ts";
import { type EntityManager, run } from "../db/database.ts";
import { conflict } from "../errors.ts";
import { taskTopic } from "../gateways/task-streams.ts";
import { applyCandidate } from "./apply-candidate.ts";
import { permitFor } from "./attempt-permit.ts";
import { addressOf } from "./providers.ts";
import { type AttemptCore, claimAttempt, settleAttempt } from "./server-attempt.ts";
import { Turns } from "./turns.ts";

/** A rotation to be done by the server. */
interface ServerTaskDraft {
  readonly organizationId: string;
  readonly configId: string;
  readonly secretId: string;
  /** The id of an identity, or "system". */
  readonly requestedBy: string;
  readonly changeReason: string;
}

/** A task that was queued. */
interface QueuedServerTask {
  readonly id: string;
  readonly createdAt: Date;
}

/** A task that nobody has begun, as far as its turn depends on it. */
interface Pending {
  readonly id: string;
  readonly organizationId: string;
  readonly secretId: string;
  readonly provider: string | null;
  readonly settings: JsonObject;
  /** What nobody asked for, and failed the last time. */
  readonly hasFailed: boolean;
}

/** What the server's own tasks are done with. */
type ServerTasksCore = AttemptCore & Pick<Core, "outbound" | "wakes">;

/** So many may wait in one process; what is more is left to other replicas, or until there is room. */
export const mostWaiting = 1000;

const mostAtOnce = 16;
const mostPerHost = 4;
/** However many fail slowly, what has not failed finds room. */
const mostFailing = mostAtOnce / 2;

/** For so long an end lets attempts finish, and then as long as they take to hear that they are ended. */
const graceMs = 5000;
const lastWordMs = 500;

/**
 * The rotations that the server does by itself. Each is a row, which any replica may claim once and which ends at its
 * deadline whatever becomes of whoever has claimed it. Nothing of an attempt happens within a transaction but its
 * beginning and its end.
 */
export class ServerTasks {
  readonly #core: ServerTasksCore;
  readonly #turns = new Turns(mostAtOnce, mostPerHost);
  readonly #turnsOfFailing = new Turns(mostFailing, mostPerHost);
  readonly #tasks = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(core: ServerTasksCore) {
    this.#core = core;
  }

  /**
   * Queues a rotation in the transaction of `em`. Comes before the secret is locked, as whoever ends a task locks in that
   * order. Throws ABORTED while another one of the same configuration has not ended. Whoever calls notes it, once the
   * secret is locked, by `noteQueued`, and starts it after the commit.
   */
  async queue(em: EntityManager, draft: ServerTaskDraft): Promise<QueuedServerTask> {
    const { organizationId, configId, secretId, requestedBy, changeReason } = draft;
    const [queued] = await run<{ id: string; createdAt: string }>(
      em,
      `insert into gateway_task (organization_id, type, config_id, secret_id, max_attempts, requested_by, change_reason)
       values ($1, 'rotate_secret', $2, $3, 1, $4, $5) on conflict do nothing returning id, created_at as "createdAt"`,
      [organizationId, configId, secretId, requestedBy, changeReason],
    );
    if (queued === undefined) throw conflict("another rotation of this secret is running");
    return { id: queued.id, createdAt: new Date(queued.createdAt) };
  }

  /** The tasks that wait here or are being done. */
  get taken(): string[] {
    return [...this.#tasks.keys()];
  }

  /**
   * Has a pending task done by this process when its turn comes, unless another one has begun it by then. Where too many
   * wait already, the scheduler of some replica comes for it.
   */
  start(taskId: string): void {
    if (this.#tasks.size < mostWaiting) void this.run(taskId);
  }

  /** As `start`; resolves, whatever happens, when nothing more is done for the task here. */
  run(taskId: string): Promise<void> {
    const running = this.#tasks.get(taskId) ?? this.#do(taskId).finally(() => this.#tasks.delete(taskId));
    this.#tasks.set(taskId, running);
    return running;
  }

  /** Lets what runs finish within a few seconds. What was not begun is left to others, and the rest to its deadline. */
  async stop(): Promise<void> {
    await this.#idleWithin(graceMs);
    this.#stopping.abort(new Error("the server is being stopped"));
    await this.#idleWithin(lastWordMs);
  }

  async #idleWithin(ms: number): Promise<void> {
    await Promise.race([Promise.all(this.#tasks.values()), sleep(ms, undefined, { ref: false })]);
  }

  async #do(taskId: string): Promise<void> {
    try {
      const pending = await this.#find(taskId);
      if (pending === undefined) return;
      const { provider, settings } = pending;
      // Tasks that are about nothing any more wait for each other.
      const address = provider === null ? "" : addressOf(provider, settings);
      const attempt = () => this.#turns.take(address, () => this.#attempt(pending));
      await (pending.hasFailed ? this.#turnsOfFailing.take(address, attempt) : attempt());
    } catch (err) {
      this.#core.logger.warn(
        { err, task_id: taskId },
        "a rotation could not be begun or ended and will be tried again",
      );
    }
  }

  async #find(taskId: string): Promise<Pending | undefined> {
    const [pending] = await this.#core.db.query<Pending>(
      `select t.id, t.organization_id as "organizationId", t.secret_id as "secretId", c.provider,
         c.provider_settings as settings,
         t.requested_by = 'system' and coalesce(c.consecutive_failures > 0, false) as "hasFailed"
       from gateway_task t left join rotation_config c on c.id = t.config_id and c.organization_id = t.organization_id
       where t.id = $1 and t.environment is null and t.status = 'pending'`,
      [taskId],
    );
    return pending;
  }

  async #attempt(pending: Pending): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    const permit = permitFor(this.#core.config.TASK_TIMEOUT_SECONDS, signal);
    const attempt = await claimAttempt(this.#core, pending);
    if (attempt !== undefined) {
      const outcome = await applyCandidate(attempt, this.#core, permit);
      await settleAttempt(this.#core, attempt, outcome, permit);
    }
    this.#core.wakes.wake(taskTopic(pending));
  }
}
