import { notFound, referenceNotFound, wrongState } from "../errors.ts";
import { type GatewayRow, isHealthy } from "./gateway-record.ts";
import type { Timing } from "./timing.ts";

/** Whether it would take over: it is on standby, was heard of, and nobody took it out of service. */
export const isReady = (gateway: GatewayRow, timing: Timing): boolean =>
  gateway.role === "dr-standby" && isHealthyStandby(gateway, timing) && gateway.deactivated_at === null;

const isHealthyStandby = (gateway: GatewayRow, timing: Timing) =>
  gateway.activation_status === "standby" && isHealthy(gateway, timing);

export const primaryOf = (gateways: readonly GatewayRow[]): GatewayRow | undefined =>
  gateways.find(({ role }) => role === "primary");

export const activeOf = (gateways: readonly GatewayRow[]): GatewayRow | undefined =>
  gateways.find(({ activation_status }) => activation_status === "active");

/**
 * The gateway that activate-dr would activate, of those of an environment: the named one, or the ready one that was heard
 * of last, ties by name. Throws why there is none (gaps 8.3).
 */
export function gatewayToActivate(gateways: readonly GatewayRow[], timing: Timing, named?: string): GatewayRow {
  if (gateways.length === 0) throw notFound("environment");
  const drGateways = gateways.filter(({ role }) => role === "dr-standby");
  if (drGateways.length === 0) throw notFound("DR gateway");
  const chosen = drGateways.find(({ id }) => id === named?.toLowerCase());
  if (named !== undefined && chosen === undefined) throw referenceNotFound("gateway_id", "DR gateway");
  if (activeOf(drGateways) !== undefined) throw wrongState("DR gateway is already active");
  checkPrimaryFailed(primaryOf(gateways), timing);
  if (chosen !== undefined) {
    if (isHealthyStandby(chosen, timing)) return chosen;
    throw wrongState(`DR gateway ${chosen.name} is no healthy standby: it is ${describe(chosen)}`);
  }
  const [first] = drGateways.filter((gateway) => isReady(gateway, timing)).toSorted(byHeartbeat);
  if (first === undefined) throw wrongState("no DR gateway is a healthy standby");
  return first;
}

const byHeartbeat = (a: GatewayRow, b: GatewayRow) =>
  a.seconds_since_heartbeat - b.seconds_since_heartbeat || (a.name < b.name ? -1 : 1);

/** The heartbeats of a deactivated primary do not count: an operator's word does (gaps 8.5). */
function checkPrimaryFailed(primary: GatewayRow | undefined, timing: Timing): void {
  if (primary === undefined) throw wrongState("no primary is registered in the environment");
  if (primary.activation_status !== "failed") {
    throw wrongState(`primary is not in failed state: it is ${describe(primary)}`);
  }
  if (isHealthy(primary, timing) && primary.deactivated_at === null) {
    throw wrongState(`primary is not in failed state: ${heartbeatOf(primary)}; use failback`);
  }
}

/** The primary that failback would return to, of the gateways of an environment. Throws why it would not (gaps 8.4). */
export function primaryToReturnTo(gateways: readonly GatewayRow[], timing: Timing): GatewayRow {
  if (gateways.length === 0) throw notFound("environment");
  const primary = primaryOf(gateways);
  if (primary === undefined) throw notFound("primary gateway");
  if (primary.activation_status === "active") throw wrongState("primary is already active");
  if (!isHealthy(primary, timing)) throw wrongState(`primary has not recovered: ${heartbeatOf(primary)}`);
  return primary;
}

const describe = (gateway: GatewayRow) => `${gateway.activation_status}, ${heartbeatOf(gateway)}`;

/** As in "last heartbeat 12 seconds ago". */
export const heartbeatOf = ({ seconds_since_heartbeat }: GatewayRow): string =>
  `last heartbeat ${durationOf(seconds_since_heartbeat)} ago`;

function durationOf(seconds: number): string {
  if (seconds < 120) return count(seconds, "second");
  if (seconds < 7200) return count(seconds / 60, "minute");
  if (seconds < 172_800) return count(seconds / 3600, "hour");
  return count(seconds / 86_400, "day");
}

const count = (amount: number, unit: string) => `${Math.floor(amount)} ${unit}${Math.floor(amount) === 1 ? "" : "s"}`;
