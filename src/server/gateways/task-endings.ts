import { type EntityManager, run } from "../db/database.ts";
import type { Conditions } from "../db/page.ts";
import type { FailedTask } from "./gateway-work.ts";
import { workColumns } from "./task-record.ts";

/** A task that ended badly, and the one that tries again, if any does. */
export interface EndedTask extends FailedTask {
  readonly retryId: string | null;
}

/** How a task ends badly. */
export interface BadEnding {
  readonly status: "failed" | "timed_out";
  readonly error: string;
  /** Who tries again; none while nobody is active. */
  readonly nextGatewayId: string | null;
  /** Trying again would not help. */
  readonly permanent?: boolean;
}

/**
 * Ends running tasks badly, those that `where` selects of table `t`, and queues the next attempts of those that have
 * one: in one statement, so that of a rotation there is never none and never a second one.
 */
export async function endBadly(em: EntityManager, where: Conditions, ending: BadEnding): Promise<EndedTask[]> {
  const { status, error, nextGatewayId, permanent = false } = ending;
  const given = where.values.length;
  return run<EndedTask>(
    em,
    `with ended as (
       update gateway_task t set status = $${given + 1}, error = $${given + 2}, finished_at = now()
       where t.status = 'running' and ${where.text} returning t.*),
     retry as (
       insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, attempt,
         max_attempts, retry_of, requested_by, change_reason)
       select organization_id, environment, $${given + 3}::uuid, type, config_id, secret_id, attempt + 1,
         max_attempts, id, requested_by, change_reason
       from ended where attempt < max_attempts and not $${given + 4}
       returning id, retry_of)
     select ${workColumns}, t.status, t.error, retry.id as "retryId" from ended t left join retry on retry.retry_of = t.id`,
    [...where.values, status, error, nextGatewayId, permanent],
  );
}

/** Those that are not tried again. */
export const givenUp = (tasks: readonly EndedTask[]): EndedTask[] => tasks.filter(({ retryId }) => retryId === null);
