/** A value that a gateway applied, in the order in which it was. */
export interface Applied {
  readonly gateway: string;
  readonly task: string;
  readonly secret: string;
  /** Of the value, SHA-256 in hex. */
  readonly hash: string;
}

/** A rotation as the server lists it, of the secret's newest hundred tasks. */
export interface Task {
  readonly id: string;
  readonly secret_id: string;
  readonly status: string;
  readonly retry_of: string | null;
}

/** What is left of a drill. */
export interface Evidence {
  /** What the server said it would do: the first task of each. */
  readonly accepted: readonly string[];
  readonly tasks: readonly Task[];
  readonly applied: readonly Applied[];
  /** Of each secret, the hash of its current value, and how many versions rotations have made. */
  readonly secrets: ReadonlyMap<string, { readonly hash: string; readonly rotations: number }>;
}

/** What became of the work. */
export interface Verdict {
  readonly accepted: number;
  /** Tasks that were begun again, with the same value. */
  readonly triedAgain: number;
  /** Rotations that did not come to a good end. */
  readonly lost: readonly string[];
  /** Secrets that got another number of versions than rotations succeeded. */
  readonly committedTwice: readonly string[];
  /** Rotations whose attempts applied different values. */
  readonly ambiguous: readonly string[];
  /** Secrets whose value is not the one that was applied last. */
  readonly diverged: readonly string[];
}

/** Judges by what was applied and what is kept, whatever anybody said meanwhile. */
export function judge({ accepted, tasks, applied, secrets }: Evidence): Verdict {
  const first = firstsOf(tasks);
  const succeeded = tasks.filter(({ status }) => status === "succeeded");
  /** The secret of each rotation that was done. */
  const done = new Map(succeeded.map(({ id, secret_id }) => [first.get(id) ?? id, secret_id]));
  const rotations = Map.groupBy(done.values(), (secret) => secret);
  const hashes = Map.groupBy(applied, ({ task }) => first.get(task) ?? task);
  const last = new Map(applied.map(({ secret, hash }) => [secret, hash]));
  return {
    accepted: accepted.length,
    triedAgain: tasks.filter(({ retry_of }) => retry_of !== null).length,
    lost: accepted.filter((id) => !done.has(id)),
    committedTwice: [...secrets].filter(([id, kept]) => kept.rotations !== (rotations.get(id)?.length ?? 0)).map(idOf),
    ambiguous: [...hashes].filter(([, all]) => new Set(all.map(({ hash }) => hash)).size > 1).map(idOf),
    diverged: [...secrets].filter(([id, { hash }]) => last.has(id) && last.get(id) !== hash).map(idOf),
  };
}

/** Whether all was as it should be, and there was something to judge. */
export const isGood = ({ accepted, lost, committedTwice, ambiguous, diverged }: Verdict): boolean =>
  accepted > 0 && [lost, committedTwice, ambiguous, diverged].every((faults) => faults.length === 0);

const idOf = ([id]: readonly [string, unknown]) => id;

/** Of each task, the first one of its chain of attempts. */
function firstsOf(tasks: readonly Task[]): ReadonlyMap<string, string> {
  const previous = new Map(tasks.map(({ id, retry_of }) => [id, retry_of]));
  const firstOf = (id: string): string => {
    const before = previous.get(id);
    return before == null ? id : firstOf(before);
  };
  return new Map(tasks.map(({ id }) => [id, firstOf(id)]));
}
