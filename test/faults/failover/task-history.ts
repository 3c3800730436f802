import type { Commit, Contradiction, TaskChange } from "../failover-history.ts";
import type { ActivationHistory } from "./activation-history.ts";

type Status = TaskChange["status"];

/** Where a task gets to from where; null is where it begins (G-8.21). */
const nextOf = (status: Status | null): readonly Status[] => {
  if (status === null) return ["pending"];
  if (status === "pending") return ["pending", "running", "cancelled"];
  return status === "running" ? ["succeeded", "failed", "timed_out"] : [];
};

const isDone = ({ type, status }: TaskChange) => type === "rotate_secret" && status === "succeeded";
const inOrder = (texts: readonly string[]) => texts.toSorted((one, other) => one.localeCompare(other)).join(" ");
const hasEnded = ({ status }: TaskChange) => nextOf(status).length === 0;

/** What stays as it is for as long as there is the task. */
const identityOf = (task: TaskChange) =>
  [task.environment, task.type, task.config, task.secret, task.attempt, task.maxAttempts, task.retryOf].join(" ");

/** What became of each task, commit by commit. */
export class TaskHistory {
  readonly #activations: ActivationHistory;
  readonly #tasks = new Map<string, TaskChange>();
  /** Those that have not ended, by environment. */
  readonly #open = new Map<string, Map<string, TaskChange>>();
  /** Of each claim, the task. */
  readonly #claims = new Map<string, string>();
  /** Of each task, the one that repeats it. */
  readonly #retries = new Map<string, string>();
  /** Of each version, the task that made it. */
  readonly #makers = new Map<string, string>();

  constructor(activations: ActivationHistory) {
    this.#activations = activations;
  }

  /** What in the next commit cannot be; who was active then, `activations` knows already. */
  add(commit: Commit): Contradiction[] {
    const changed = commit.filter((change) => change.of === "task");
    const found = changed.flatMap((task) => this.#addTask(task).map((what) => ({ what, where: task.id })));
    const timedOut = changed.filter(({ status }) => status === "timed_out");
    const lost = timedOut.filter((task) => this.lacksRetry(task));
    const touched = commit.filter((change) => change.of === "lock" || change.of === "task");
    const environments = new Set(touched.map(({ environment }) => environment));
    return [
      ...found,
      ...lost.map(({ id }) => ({ what: "timeout that is not tried again", where: id })),
      ...[...environments].flatMap((environment) => this.#judgeRoutes(environment)),
      ...this.#addVersions(commit),
    ];
  }

  get(id: string): TaskChange | undefined {
    return this.#tasks.get(id);
  }

  /** The task that was claimed so. */
  claimedBy(claim: string): string | undefined {
    return this.#claims.get(claim);
  }

  /** The task that made a version. */
  makerOf(secret: string, version: number): string | undefined {
    return this.#makers.get(`${secret} ${version}`);
  }

  /** The first attempt of what this task repeats, itself if it repeats nothing. */
  firstOfChain(id: string): string {
    const previous = this.#tasks.get(id)?.retryOf;
    return previous == null ? id : this.firstOfChain(previous);
  }

  /** Whether there is an attempt left that was not made. */
  lacksRetry({ id, attempt, maxAttempts }: TaskChange): boolean {
    return attempt < maxAttempts && !this.#retries.has(id);
  }

  #addTask(task: TaskChange): string[] {
    const before = this.#tasks.get(task.id);
    this.#tasks.set(task.id, task);
    const open = this.#open.get(task.environment) ?? new Map();
    this.#open.set(task.environment, open);
    if (hasEnded(task)) open.delete(task.id);
    else open.set(task.id, task);
    if (before !== undefined && hasEnded(before)) return ["change after the end"];
    if (!nextOf(before?.status ?? null).includes(task.status)) return ["step that does not exist"];
    if (before === undefined) return this.#judgeBeginning(task);
    if (identityOf(before) !== identityOf(task)) return ["task that became another"];
    if (task.status === "running") return this.#judgeClaim(task);
    return before.status === "running" ? this.#judgeEnd(before, task) : [];
  }

  #judgeBeginning({ id, retryOf, attempt, maxAttempts, type, config, environment }: TaskChange): string[] {
    if (retryOf === null) return attempt === 1 ? [] : ["later attempt at nothing"];
    const previous = this.#tasks.get(retryOf);
    const isSecond = this.#retries.has(retryOf);
    this.#retries.set(retryOf, id);
    if (isSecond) return ["second retry"];
    const continues =
      (previous?.status === "failed" || previous?.status === "timed_out") &&
      attempt === previous.attempt + 1 &&
      attempt <= maxAttempts &&
      [type, config, environment].join() === [previous.type, previous.config, previous.environment].join();
    return continues ? [] : ["retry that does not continue its chain"];
  }

  #judgeClaim({ id, claim, type, gateway, token }: TaskChange): string[] {
    if (claim === null || this.#claims.has(claim)) return ["claim that is not its own"];
    this.#claims.set(claim, id);
    if (type === "rotate_secret") return [];
    const { status, isDeactivated } = this.#activations.gateway(gateway ?? "") ?? {};
    return token === null && status === "standby" && isDeactivated === false ? [] : ["check by who does not stand by"];
  }

  #judgeEnd(before: TaskChange, task: TaskChange): string[] {
    if (task.claim !== before.claim || task.token !== before.token || task.gateway !== before.gateway)
      return ["end of another claim"];
    if (task.type === "verify_secret" || task.status === "timed_out") return [];
    const { holder, token } = this.#activations.lockOf(task.environment);
    return task.token === token && task.gateway === holder ? [] : ["report under a token that is not the current one"];
  }

  /** Rotations wait for the holder, and run at the holder under its token; there is no other place for them. */
  #judgeRoutes(environment: string): Contradiction[] {
    const { holder, token } = this.#activations.lockOf(environment);
    const rotations = [...(this.#open.get(environment)?.values() ?? [])].filter(({ type }) => type === "rotate_secret");
    const astray = rotations.filter(
      (task) => task.gateway !== holder || (task.status === "running" && task.token !== token),
    );
    return astray.map(({ id, status }) => ({ what: `${status} task that is not with the holder`, where: id }));
  }

  /** A rotation that succeeds adds one version and one event, and nothing else does. */
  #addVersions(commit: Commit): Contradiction[] {
    const done = commit.filter((change) => change.of === "task").filter(isDone);
    const versions = commit.filter((change) => change.of === "version");
    const events = commit.filter((change) => change.of === "event").filter(({ action }) => action === "secret.rotate");
    for (const { id, secret } of done) {
      for (const { version } of versions.filter((each) => each.secret === secret))
        this.#makers.set(`${secret} ${version}`, id);
    }
    const secrets = [done.map(({ secret }) => secret), versions.map(({ secret }) => secret)];
    const counted = [...secrets, events.map(({ resource }) => resource ?? "")].map(inOrder);
    if (new Set(counted).size === 1) return [];
    return [{ what: "rotation that is not one task, one version and one event", where: counted.join(" | ") }];
  }
}
