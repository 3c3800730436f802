import { systemEvent } from "../audit/audit-writer.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem } from "../jobs.ts";
import { type Environment, lockEnvironment } from "./environment-lock.ts";
import { type HandOver, handOver, type Move, move } from "./gateway-changes.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { consecutiveFailures, type GatewayRow, lockGateways } from "./gateway-record.ts";
import { gatewayTopic } from "./task-streams.ts";
import type { Timing } from "./timing.ts";

/** SQL for whether the silence of a gateway had reached the threshold of $2 seconds at the time $1. */
const isOverdue = `retired_at is null and activation_status <> 'failed'
  and silent_since <= $1::timestamptz - make_interval(secs => $2)`;

const thresholdSeconds = ({ heartbeatTimeout, failureThreshold }: Timing) => heartbeatTimeout * failureThreshold;

/** The environments of gateways whose silence had reached the threshold at that time. */
export const silentEnvironments = ({ db, timing }: Pick<GatewayCore, "db" | "timing">, at: string) =>
  db.query<Environment>(
    `select distinct organization_id as "organizationId", environment from gateway where ${isOverdue}`,
    [at, thresholdSeconds(timing)],
  );

/**
 * Fails the gateways of an environment whose silence had reached the threshold at a time until which they could be heard:
 * a process that was paused since then must not hold that against them. The lock of an active one ends, and its tasks
 * wait (G-8.7).
 */
export async function failSilent(core: GatewayCore, environment: Environment, at: string): Promise<void> {
  const { audit, db, logger, timing, wakes } = core;
  const failed = await asSystem(db, async (em) => {
    await lockEnvironment(em, environment);
    const gateways = await lockGateways(em, environment);
    const overdue = await overdueOf(em, environment, at, timing);
    const silent = gateways.filter(({ id }) => overdue.has(id));
    const events = [];
    for (const gateway of silent) {
      const moved = await move(em, gateway, "silence");
      const handed = moved.before === "active" ? await handOver(em, core, environment, null) : undefined;
      events.push(eventOf(gateway, moved, handed, timing));
    }
    await audit.record(em, events);
    return silent;
  });
  for (const { id, name } of failed) {
    logger.warn({ gateway_id: id, gateway: name, environment: environment.environment }, "gateway failed");
    wakes.wake(gatewayTopic(id));
  }
}

async function overdueOf(
  em: EntityManager,
  { organizationId, environment }: Environment,
  at: string,
  timing: Timing,
): Promise<ReadonlySet<string>> {
  const rows = await run<{ id: string }>(
    em,
    `select id from gateway where ${isOverdue} and organization_id = $3 and environment = $4`,
    [at, thresholdSeconds(timing), organizationId, environment],
  );
  return new Set(rows.map(({ id }) => id));
}

const eventOf = (gateway: GatewayRow, moved: Move, handed: HandOver | undefined, timing: Timing) =>
  systemEvent({
    organizationId: gateway.organization_id,
    action: "gateway.fail",
    resourceType: "gateway",
    resourceId: gateway.id,
    resourceName: gateway.name,
    details: {
      environment: gateway.environment,
      role: gateway.role,
      ...moved,
      consecutive_failures: consecutiveFailures(gateway, timing),
      ...handed,
    },
  });
