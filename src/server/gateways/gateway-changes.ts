import { type EntityManager, run } from "../db/database.ts";
import { type Environment, giveEnvironment, releaseEnvironment } from "./environment-lock.ts";
import type { GatewayCore } from "./gateway-core.ts";
import type { GatewayRow } from "./gateway-record.ts";
import { rerouteTasks } from "./task-routing.ts";
import { type Event, next, type Status } from "./transitions.ts";

/** How a gateway stood and stands, as the audit log tells it. */
export interface Move {
  readonly before: Status;
  readonly after: Status;
}

/**
 * Lets an event change how a gateway stands, in a transaction that has locked its environment and gateways. Whoever
 * comes into service is no longer deactivated. Nothing is written when nothing changes.
 */
export async function move(em: EntityManager, gateway: GatewayRow, event: Event): Promise<Move> {
  const before = gateway.activation_status;
  const after = next(gateway.role, before, event);
  const isDeactivation = event === "deactivate" || event === "mark_failed";
  await run(
    em,
    `update gateway set activation_status = $3, updated_at = now(),
       deactivated_at = case when $3 = 'active' then null when $4 then coalesce(deactivated_at, now()) else deactivated_at end
     where id = $1 and organization_id = $2 and (activation_status <> $3 or ($4 and deactivated_at is null))`,
    [gateway.id, gateway.organization_id, after, isDeactivation],
  );
  return { before, after };
}

/** What became of an environment, as the audit log tells it. */
export interface HandOver {
  readonly fencing_token?: string;
  readonly tasks_moved: number;
  readonly tasks_requeued: number;
}

/**
 * Gives a locked environment to a gateway under a new token, or to nobody, with its tasks: those that were running end
 * and are queued again, so what was claimed under the old token is fenced (G-8.9).
 */
export async function handOver(
  em: EntityManager,
  { work }: Pick<GatewayCore, "work">,
  environment: Environment,
  holderId: string | null,
): Promise<HandOver> {
  const token = holderId === null ? undefined : await giveEnvironment(em, environment, holderId);
  if (holderId === null) await releaseEnvironment(em, environment);
  const { moved, ended } = await rerouteTasks(em, environment, holderId);
  await work.failed(em, ended);
  const tasks = { tasks_moved: moved, tasks_requeued: ended.filter(({ retryId }) => retryId !== null).length };
  return token === undefined ? tasks : { fencing_token: String(token), ...tasks };
}

/** Ends a gateway that is not active for good, with the checks that wait for it. */
export async function retire(em: EntityManager, { id, organization_id }: GatewayRow): Promise<void> {
  await run(
    em,
    "update gateway set retired_at = now(), updated_at = now() where id = $1 and organization_id = $2 and retired_at is null",
    [id, organization_id],
  );
  await run(
    em,
    `update gateway_task set status = 'cancelled', finished_at = now()
     where gateway_id = $1 and organization_id = $2 and status = 'pending'`,
    [id, organization_id],
  );
}
