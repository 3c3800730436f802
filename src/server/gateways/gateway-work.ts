import type { JsonObject } from "@bufbuild/protobuf";
import type { Core } from "../context.ts";
import type { EntityManager, Queries } from "../db/database.ts";
import type { Call } from "../wire/call.ts";

/** A task as far as whoever has it done needs to know it. */
export interface Task {
  readonly id: string;
  readonly organizationId: string;
  readonly environment: string;
  readonly gatewayId: string;
  readonly type: "rotate_secret" | "verify_secret";
  readonly configId: string;
  readonly secretId: string;
  readonly attempt: number;
  /** The id of an identity, or "system". */
  readonly requestedBy: string;
  readonly changeReason: string;
}

/** A task that ended badly. */
export interface FailedTask extends Omit<Task, "gatewayId"> {
  readonly gatewayId: string | null;
  readonly status: "failed" | "timed_out";
  readonly error: string;
  /** Whether everything outside is certainly as it was before. */
  readonly unchanged: boolean;
  /** The task that tries again, if any does. */
  readonly retryId: string | null;
}

/** What a gateway is given with a task. */
export interface TaskContent {
  /** The secret's name and project, for the audit log too. */
  readonly key: string;
  readonly projectId: string;
  readonly driver: string;
  readonly settings: JsonObject;
  readonly credentials: JsonObject;
  readonly value: string;
  readonly previousValue: string | undefined;
  /** What the target may have instead of it; the newest first. */
  readonly earlierCandidates: readonly string[];
}

/** How much of an environment would work after a failover. */
export interface EnvironmentReadiness {
  readonly configurations: number;
  readonly ready: number;
  readonly unchecked: number;
  readonly failing: number;
  /** At most 100. */
  readonly failures: readonly {
    readonly configId: string;
    readonly secretId: string;
    readonly gatewayId: string;
    readonly error: string;
    readonly checkedAt: Date;
  }[];
}

/**
 * What the tasks of gateways are about. Whoever has tasks done by gateways implements it; gateways know neither secrets
 * nor configurations. All that writes runs in the transaction that changes the task.
 */
export interface GatewayWork {
  /** What the gateway that has just claimed the task is given; undefined when the secret is no more, or is not active. */
  content(call: Call, task: Task): Promise<TaskContent | undefined>;
  /** The task is done; `value` is what the target made itself, where it does. Throws a Refusal when that cannot be used. */
  succeeded(call: Call, task: Task, value: string | undefined): Promise<void>;
  /** These ended badly, those that are tried again too. */
  failed(em: EntityManager, tasks: readonly FailedTask[]): Promise<void>;
  /** Cancels pending tasks whose secret or configuration is gone. */
  cancelOrphaned(em: EntityManager): Promise<void>;
  /** Queues checks that are due. */
  queueChecks(em: EntityManager): Promise<void>;
  /** By environment. */
  readiness(queries: Queries, organizationId: string): Promise<ReadonlyMap<string, EnvironmentReadiness>>;
}

/** Makes it out of what contexts are built from. */
export type MakeGatewayWork = (core: Core) => GatewayWork;
