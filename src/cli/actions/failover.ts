import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  ActivateDrResponseSchema,
  type EnvironmentHealth,
  FailbackResponseSchema,
  GatewayService,
  type GatewayVitals,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { orElseLook } from "../explain.ts";
import { Failure } from "../failure.ts";
import { isId, theOnly } from "../find.ts";
import { heardOf, readinessText, standingOf } from "../gateway-health.ts";
import { note, printRestRecord, say } from "../output.ts";
import { openSession } from "../session.ts";

export interface FailbackOptions extends Json {
  readonly reason?: string;
  readonly yes?: boolean;
}
export interface ActivateOptions extends FailbackOptions {
  readonly gateway?: string;
}

/** An environment as it is before anything is done to it, and its gateways. */
interface Situation extends EnvironmentHealth {
  readonly gateways: readonly GatewayVitals[];
  readonly primary: GatewayVitals | undefined;
  readonly active: GatewayVitals | undefined;
}

const whereToLook = "whether it was done, holdfast gateway status says";

export async function activate(environment: string, options: ActivateOptions): Promise<void> {
  const { gateway, reason = "" } = options;
  const api = openSession();
  const situation = await situationOf(api, environment);
  const target = gateway === undefined ? usualTarget(situation) : namedTarget(situation, gateway);
  const inTheWay = whyNoActivation(situation, target);
  if (inTheWay !== undefined) throw new Failure("conflict", inTheWay);
  noteMove(situation, situation.primary, target);
  noteReadiness(situation, target);
  if (!(await isAgreed(`Fail ${environment} over to ${target?.name}?`, options))) return;
  // The gateway that was agreed on, whichever may be the better one by now.
  const done = await orElseLook(
    api(GatewayService).activateDr({ environment, gatewayId: target?.id, reason }),
    whereToLook,
  );
  if (options.json) return printRestRecord(ActivateDrResponseSchema, done);
  say(done.message);
  say(`fencing token ${done.fencingToken}`);
}

export async function failback(environment: string, options: FailbackOptions): Promise<void> {
  const { reason = "" } = options;
  const api = openSession();
  const situation = await situationOf(api, environment);
  const inTheWay = whyNoFailback(situation);
  if (inTheWay !== undefined) throw new Failure("conflict", inTheWay);
  noteMove(situation, situation.active, situation.primary);
  if (!(await isAgreed(`Return ${environment} to ${situation.primary?.name}?`, options))) return;
  const done = await orElseLook(api(GatewayService).failback({ environment, reason }), whereToLook);
  if (options.json) return printRestRecord(FailbackResponseSchema, done);
  say(done.message);
}

async function situationOf(api: Api, environment: string): Promise<Situation> {
  const health = await api(GatewayService).getGatewayHealth({});
  const found = health.environments.find((each) => each.environment === environment);
  if (found === undefined) {
    const names = health.environments.map((each) => each.environment);
    throw new Failure("notFound", `no gateway serves an environment ${environment}`, names);
  }
  const gateways = health.gateways.filter((each) => each.environment === environment);
  const primary = gateways.find(({ role }) => role === "primary");
  return { ...found, gateways, primary, active: gateways.find(({ id }) => id === found.activeGatewayId) };
}

/** The one that the server would choose: the healthy standby that was heard of last. */
const usualTarget = ({ gateways }: Situation): GatewayVitals | undefined =>
  gateways
    .filter(({ role, activationStatus, healthy, deactivatedAt }) => {
      return role === "dr-standby" && activationStatus === "standby" && healthy && deactivatedAt === undefined;
    })
    .sort((one, other) => heartbeatOf(other) - heartbeatOf(one) || (one.name < other.name ? -1 : 1))[0];

const heartbeatOf = ({ lastHeartbeat }: GatewayVitals): number =>
  lastHeartbeat === undefined ? 0 : timestampMs(lastHeartbeat);

function namedTarget({ environment, gateways }: Situation, reference: string): GatewayVitals {
  const found = gateways
    .filter(({ role }) => role === "dr-standby")
    .filter(({ id, name }) => (isId(reference) ? id === reference.toLowerCase() : name === reference));
  const describe = ({ id, activationStatus }: GatewayVitals) => `${id}  ${activationStatus}`;
  return theOnly(`DR gateway ${reference} of ${environment}`, found, describe, "say which by its id");
}

/** In the words by which the server would refuse it. */
function whyNoActivation(situation: Situation, target: GatewayVitals | undefined): string | undefined {
  const { canActivateDr, blockedReason, active, primary } = situation;
  if (active?.role === "dr-standby") return "DR gateway is already active";
  // It says nothing where failback is possible instead.
  if (!canActivateDr && blockedReason === undefined && primary !== undefined && !hasFailed(primary)) {
    return `primary is not in failed state: last heartbeat ${heardOf(primary)}; use failback`;
  }
  if (target !== undefined && (target.activationStatus !== "standby" || !target.healthy)) {
    return `DR gateway is no healthy standby: ${described(target)}`;
  }
  // One that was taken out of service is activated when it is named, and not counted before.
  const isOverridden = primary !== undefined && hasFailed(primary) && target?.deactivatedAt !== undefined;
  return canActivateDr || isOverridden ? undefined : (blockedReason ?? "no DR gateway is a healthy standby");
}

/** The heartbeats of a primary that an operator took out of service do not count. */
const hasFailed = ({ activationStatus, healthy, deactivatedAt }: GatewayVitals): boolean =>
  activationStatus === "failed" && (!healthy || deactivatedAt !== undefined);

function whyNoFailback({ canFailback, blockedReason, active, primary }: Situation): string | undefined {
  if (canFailback) return undefined;
  if (active?.role === "primary") return "primary is already active";
  if (active === undefined && primary !== undefined) {
    return `primary has not recovered: last heartbeat ${heardOf(primary)}`;
  }
  return blockedReason ?? "it cannot be done now";
}

/** Says what would happen, on standard error, as questions are asked. */
function noteMove({ environment, tasks }: Situation, from: GatewayVitals | undefined, to: GatewayVitals | undefined) {
  note(`${environment} moves from ${described(from)} to ${described(to)}`);
  const { pending = 0, running = 0 } = tasks ?? {};
  note(`${pending} pending and ${running} running tasks move; what is running is done again`);
}

const described = (gateway: GatewayVitals | undefined): string =>
  gateway === undefined ? "nobody" : `${gateway.name} (${standingOf(gateway)}, last heartbeat ${heardOf(gateway)})`;

/** What would work on the gateway, and what would not. */
function noteReadiness({ readiness }: Situation, target: GatewayVitals | undefined): void {
  if (readiness === undefined || readiness.configurations === 0) return;
  note(`rotations: ${readinessText(readiness)}`);
  for (const { secretId, gatewayId, error } of readiness.failures) {
    if (gatewayId === target?.id) note(`secret ${secretId} would not work there: ${error}`);
  }
}

async function isAgreed(question: string, { yes }: FailbackOptions): Promise<boolean> {
  const agreed = yes || (await askConsent(question, "agree with --yes"));
  if (!agreed) note("nothing was changed");
  return agreed;
}
