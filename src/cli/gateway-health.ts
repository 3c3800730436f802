import type {
  EnvironmentHealth,
  GatewayHealth,
  GatewayVitals,
  Readiness,
} from "../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import { durationText } from "./duration.ts";
import { timeText } from "./output.ts";
import { tableText } from "./table.ts";
import { visible } from "./visible.ts";
import type { State } from "./watch.ts";

/** How gateways and environments are, as tables, and below them what could be done and what would not work. */
export function healthText(health: GatewayHealth): string {
  if (health.gateways.length === 0) return "no gateway has registered\n";
  const sentences = health.environments.flatMap((environment) => sentencesOn(environment, health));
  return [environmentTable(health), "", gatewayTable(health), "", ...sentences.map(visible), ""].join("\n");
}

const environmentTable = (health: GatewayHealth): string =>
  tableText(
    ["ENVIRONMENT", "STATUS", "ACTIVE", "FENCING TOKEN", "PENDING", "RUNNING"],
    health.environments.map(({ environment, status, activeGatewayId, lock, tasks }) => [
      environment,
      status,
      nameOf(activeGatewayId, health),
      lock?.fencingToken ?? "-",
      String(tasks?.pending ?? 0),
      String(tasks?.running ?? 0),
    ]),
  );

const gatewayTable = ({ gateways }: GatewayHealth): string =>
  tableText(
    ["GATEWAY", "ENVIRONMENT", "ROLE", "STATUS", "HEARTBEAT", "FAILURES"],
    gateways.map((gateway) => [
      gateway.name,
      gateway.environment,
      gateway.role,
      standingOf(gateway),
      heardOf(gateway),
      String(gateway.consecutiveFailures),
    ]),
  );

function sentencesOn(environment: EnvironmentHealth, health: GatewayHealth): string[] {
  const { environment: name, blockedReason, readiness } = environment;
  const why = blockedReason === undefined ? "" : `: ${blockedReason}`;
  return [
    `${name}: ${possible(environment)}${why}`,
    ...(readiness === undefined ? [] : readinessSentences(name, readiness, health)),
  ];
}

function readinessSentences(environment: string, readiness: Readiness, health: GatewayHealth): string[] {
  const failures = readiness.failures.map(
    ({ secretId, gatewayId, error, checkedAt }) =>
      `  secret ${secretId} does not work from ${nameOf(gatewayId, health)}: ${error} (${timeText(checkedAt)})`,
  );
  return readiness.configurations === 0 ? [] : [`${environment}: ${readinessText(readiness)}`, ...failures];
}

/** What an operator could do now. */
function possible({ canActivateDr, canFailback }: EnvironmentHealth): string {
  const operations = [...(canActivateDr ? ["can fail over"] : []), ...(canFailback ? ["can fail back"] : [])];
  return operations.length === 0 ? "can neither fail over nor fail back" : operations.join(", ");
}

/** The states of environments and gateways, each by what stays the same. */
export function healthStates(health: GatewayHealth): Map<string, State> {
  const states = new Map<string, State>();
  for (const each of health.environments) {
    states.set(`environment ${each.environment}`, {
      subject: each.environment,
      state: environmentState(each, health),
    });
  }
  for (const each of health.gateways) {
    states.set(each.id, { subject: `${each.name} (${each.role} of ${each.environment})`, state: gatewayState(each) });
  }
  return states;
}

function environmentState(environment: EnvironmentHealth, health: GatewayHealth): string {
  const { status, activeGatewayId, lock, tasks, readiness } = environment;
  const active =
    lock === undefined ? "nobody active" : `${nameOf(activeGatewayId, health)} active under ${lock.fencingToken}`;
  return [
    status,
    active,
    `${tasks?.pending ?? 0} pending`,
    `${tasks?.running ?? 0} running`,
    ...(readiness === undefined || readiness.configurations === 0 ? [] : [readinessText(readiness)]),
    possible(environment),
  ].join(", ");
}

const gatewayState = (gateway: GatewayVitals): string => {
  const { healthy, consecutiveFailures: failures } = gateway;
  return `${standingOf(gateway)}, ${healthy ? "heard of" : "silent"}, ${failures} failure${failures === 1 ? "" : "s"}`;
};

/** As in "standby, deactivated". */
export const standingOf = ({ activationStatus, deactivatedAt }: GatewayVitals): string =>
  deactivatedAt === undefined ? activationStatus : `${activationStatus}, deactivated`;

/** As in "6 min 52 s ago". */
export const heardOf = ({ secondsSinceHeartbeat }: GatewayVitals): string =>
  `${durationText(secondsSinceHeartbeat)} ago`;

/** As in "12 of 14 ready, 1 failing, 1 unchecked". */
export function readinessText({ configurations, ready, failing, unchecked }: Readiness): string {
  const rest = Object.entries({ failing, unchecked }).filter(([, count]) => count > 0);
  return [`${ready} of ${configurations} ready`, ...rest.map(([how, count]) => `${count} ${how}`)].join(", ");
}

const nameOf = (gatewayId: string | undefined, { gateways }: GatewayHealth): string =>
  gateways.find(({ id }) => id === gatewayId)?.name ?? gatewayId ?? "-";
