import { ActivationHistory } from "./failover/activation-history.ts";
import { findUntrue, type Sighting } from "./failover/sightings.ts";
import { TaskHistory } from "./failover/task-history.ts";

/** What a transaction left of something, as the database recorded it. An environment is that of one organization. */
export type Change = LockChange | GatewayChange | TaskChange | VersionAdded | EventAdded;

export interface LockChange {
  readonly of: "lock";
  readonly environment: string;
  readonly holder: string | null;
  readonly token: bigint | null;
}

export interface GatewayChange {
  readonly of: "gateway";
  readonly id: string;
  readonly environment: string;
  readonly role: "primary" | "dr-standby";
  readonly status: "active" | "standby" | "failed";
  /** The process that registered last. */
  readonly instance: string;
  readonly isDeactivated: boolean;
}

export interface TaskChange {
  readonly of: "task";
  readonly id: string;
  readonly environment: string;
  readonly type: "rotate_secret" | "verify_secret";
  readonly status: "pending" | "running" | "succeeded" | "failed" | "timed_out" | "cancelled";
  readonly gateway: string | null;
  readonly config: string;
  readonly secret: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly retryOf: string | null;
  readonly claim: string | null;
  readonly token: bigint | null;
}

/** By a rotation. */
export interface VersionAdded {
  readonly of: "version";
  readonly secret: string;
  readonly version: number;
}

/** A row of the audit log, of a success. */
export interface EventAdded {
  readonly of: "event";
  readonly action: string;
  readonly requestId: string | null;
  readonly resource: string | null;
}

/** All that one transaction changed: of each row what it left, in the order in which it did. */
export type Commit = readonly Change[];

/** Something that must not be. */
export interface Contradiction {
  /** The rule that it breaks. */
  readonly what: string;
  readonly where: string;
}

/** What in a history cannot be: of commits in their order, and of what others were told. */
export function findContradictions(commits: readonly Commit[], sightings: readonly Sighting[] = []): Contradiction[] {
  const activations = new ActivationHistory();
  const tasks = new TaskHistory(activations);
  return [
    ...commits.flatMap((commit) => [...activations.add(commit), ...tasks.add(commit)]),
    ...findUntrue(sightings, activations, tasks),
  ];
}
