import type { MessageInitShape } from "@bufbuild/protobuf";
import type * as pb from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import { timestampOf } from "../db/timestamp.ts";
import { Refusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { answerVitals, type GatewayRow, isHealthy, listGateways } from "./gateway-record.ts";
import type { EnvironmentReadiness } from "./gateway-work.ts";
import { activeOf, gatewayToActivate, isReady, primaryToReturnTo } from "./judgement.ts";
import type { Timing } from "./timing.ts";

interface OpenTasks {
  readonly environment: string;
  readonly pending: number;
  readonly running: number;
}

/** How the gateways and environments of the caller's organization are, and what could be done about them (gaps 8.1). */
export async function gatewayHealth(
  call: Call,
  { timing, work }: Pick<GatewayCore, "timing" | "work">,
): Promise<MessageInitShape<typeof pb.GatewayHealthSchema>> {
  const { organizationId } = call.caller;
  const [gateways, tasks, readiness] = await Promise.all([
    listGateways(call, organizationId),
    countOpenTasks(call, organizationId),
    work.readiness(call, organizationId),
  ]);
  const environments = Map.groupBy(gateways, ({ environment }) => environment);
  return {
    generatedAt: timestampOf(call.now),
    heartbeatTimeoutSeconds: timing.heartbeatTimeout,
    failureThreshold: timing.failureThreshold,
    gateways: gateways.map((gateway) => answerVitals(gateway, timing)),
    environments: [...environments].map(([environment, members]) => ({
      ...failoverOf(members, timing),
      environment,
      tasks: tasks.get(environment) ?? {},
      readiness: answerReadiness(readiness.get(environment)),
    })),
  };
}

/** The rotations of each environment that have not ended. */
async function countOpenTasks(call: Call, organizationId: string): Promise<ReadonlyMap<string, OpenTasks>> {
  const rows = await call.query<OpenTasks>(
    `select environment, count(*) filter (where status = 'pending')::int as pending,
       count(*) filter (where status = 'running')::int as running
     from gateway_task
     where organization_id = $1 and status in ('pending', 'running') and type = 'rotate_secret' and environment is not null
     group by environment`,
    [organizationId],
  );
  return new Map(rows.map((row) => [row.environment, row]));
}

/** Where an environment stands, and what activate-dr and failback would say to it: they judge by the same functions. */
function failoverOf(gateways: readonly GatewayRow[], timing: Timing) {
  const active = activeOf(gateways);
  const noActivation = refusalOf(() => gatewayToActivate(gateways, timing));
  const noFailback = refusalOf(() => primaryToReturnTo(gateways, timing));
  const isBlocked = noActivation !== undefined && noFailback !== undefined;
  const blockedReason = active?.role === "dr-standby" ? noFailback : noActivation;
  return {
    status: statusOf(active, gateways, timing),
    activeGatewayId: active?.id,
    lock: lockOf(active),
    canActivateDr: noActivation === undefined,
    canFailback: noFailback === undefined,
    blockedReason: isBlocked ? blockedReason : undefined,
  };
}

function statusOf(active: GatewayRow | undefined, gateways: readonly GatewayRow[], timing: Timing): string {
  if (active === undefined) return "down";
  if (active.role === "dr-standby") return "failed_over";
  const hasStandby = gateways.some((gateway) => isReady(gateway, timing));
  return isHealthy(active, timing) && hasStandby ? "healthy" : "degraded";
}

const lockOf = (holder: GatewayRow | undefined): MessageInitShape<typeof pb.EnvironmentLockSchema> | undefined =>
  holder && {
    holderGatewayId: holder.id,
    fencingToken: holder.fencing_token ?? "",
    acquiredAt: timestampOf(holder.acquired_at),
  };

function refusalOf(judge: () => unknown): string | undefined {
  try {
    judge();
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return error.rawMessage;
    throw error;
  }
}

const answerReadiness = (readiness?: EnvironmentReadiness): MessageInitShape<typeof pb.ReadinessSchema> => ({
  ...readiness,
  failures: (readiness?.failures ?? []).map((failure) => ({ ...failure, checkedAt: timestampOf(failure.checkedAt) })),
});
