import type { Contradiction } from "../failover-history.ts";
import type { ActivationHistory } from "./activation-history.ts";
import type { TaskHistory } from "./task-history.ts";

/** What somebody outside was told by the server, and so may rely on. */
export type Sighting =
  /** A gateway heard that it is active under this token. */
  | { readonly of: "standing"; readonly gateway: string; readonly token: bigint }
  /** A gateway was given a task, and this value to apply. */
  | { readonly of: "assignment"; readonly task: string; readonly claim: string; readonly value: string }
  /** The report of a gateway was accepted. */
  | {
      readonly of: "report";
      readonly task: string;
      readonly claim: string;
      readonly status: "succeeded" | "failed";
      readonly isPermanent: boolean;
    }
  /** An operator's call was answered with 200; of an activation with the token. */
  | { readonly of: "operation"; readonly action: string; readonly requestId: string; readonly token?: bigint }
  /** A version of a secret was read. */
  | { readonly of: "value"; readonly secret: string; readonly version: number; readonly value: string };

/** What of all this is not so in the end. */
export function findUntrue(
  sightings: readonly Sighting[],
  activations: ActivationHistory,
  tasks: TaskHistory,
): Contradiction[] {
  const applied = new Map<string, string>();
  for (const sighting of sightings) {
    if (sighting.of === "assignment") applied.set(tasks.firstOfChain(sighting.task), sighting.value);
  }
  return sightings.flatMap((sighting) => {
    const what = whatIsUntrue(sighting, activations, tasks, applied);
    return what === undefined ? [] : [{ what, where: Object.values(sighting).join(" ") }];
  });
}

/** `applied` is what the last attempt of each chain was to apply, by the first. */
function whatIsUntrue(
  sighting: Sighting,
  activations: ActivationHistory,
  tasks: TaskHistory,
  applied: ReadonlyMap<string, string>,
): string | undefined {
  switch (sighting.of) {
    case "standing":
      return activations.wasGiven(sighting.gateway, sighting.token) ? undefined : "standing that was never given";
    case "operation":
      return activations.didHappen(sighting) ? undefined : "acknowledged operation that did not happen";
    case "assignment": {
      if (tasks.claimedBy(sighting.claim) !== sighting.task) return "assignment that nobody claimed";
      const isTheSame = applied.get(tasks.firstOfChain(sighting.task)) === sighting.value;
      return isTheSame ? undefined : "retry with another value";
    }
    case "report": {
      const task = tasks.get(sighting.task);
      if (task?.status !== sighting.status || task.claim !== sighting.claim) return "accepted report that is not kept";
      const isOver = sighting.isPermanent || task.status === "succeeded" || !tasks.lacksRetry(task);
      return isOver ? undefined : "failure that is not tried again";
    }
    case "value": {
      const task = tasks.makerOf(sighting.secret, sighting.version);
      const value = task === undefined ? undefined : applied.get(tasks.firstOfChain(task));
      // Not every gateway tells what it applied.
      return value === undefined || value === sighting.value ? undefined : "version with a value that nobody applied";
    }
    default:
      return sighting satisfies never;
  }
}
