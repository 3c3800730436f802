import type { MessageInitShape } from "@bufbuild/protobuf";
import type * as pb from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import { notFound, wrongState } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { type Environment, lockEnvironment } from "./environment-lock.ts";
import { handOver, move, retire } from "./gateway-changes.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { answerGateway, findGateway, type GatewayRow, lockGateways } from "./gateway-record.ts";
import { activeOf, gatewayToActivate, primaryToReturnTo } from "./judgement.ts";
import { gatewayTopic } from "./task-streams.ts";

type Core = Pick<GatewayCore, "timing" | "wakes" | "work">;

/** Makes a DR gateway the active one of an environment whose primary has failed, in the call's transaction (gaps 8.3). */
export async function activateDr(
  call: Call,
  { environment: name, gatewayId, reason }: pb.ActivateDrRequest,
  core: Core,
): Promise<MessageInitShape<typeof pb.ActivateDrResponseSchema>> {
  call.about({ reason, details: { environment: name } });
  const environment = environmentOf(call, name);
  const gateways = await lockAll(call, environment);
  const gateway = gatewayToActivate(gateways, core.timing, gatewayId);
  const moved = await move(call.em, gateway, "activate_dr");
  const handed = await handOver(call.em, core, environment, gateway.id);
  about(call, gateway, { ...moved, ...handed });
  wakeAfterCommit(call, core, gateways);
  return { message: `DR gateway ${gateway.name} is active in ${name}`, fencingToken: handed.fencing_token ?? "" };
}

/** Returns an environment to its primary, once that has recovered, in the call's transaction (gaps 8.4). */
export async function failback(
  call: Call,
  { environment: name, reason }: pb.FailbackRequest,
  core: Core,
): Promise<MessageInitShape<typeof pb.FailbackResponseSchema>> {
  call.about({ reason, details: { environment: name } });
  const environment = environmentOf(call, name);
  const gateways = await lockAll(call, environment);
  const primary = primaryToReturnTo(gateways, core.timing);
  const replaced = activeOf(gateways);
  // First, as there are never two that are active, within a transaction neither.
  if (replaced !== undefined) await move(call.em, replaced, "failback");
  const moved = await move(call.em, primary, "failback");
  const handed = await handOver(call.em, core, environment, primary.id);
  about(call, primary, { ...moved, replaces: replaced?.id ?? null, ...handed });
  wakeAfterCommit(call, core, gateways);
  return { message: `primary ${primary.name} is active in ${name}` };
}

/** Takes a gateway out of service, in the call's transaction; its tasks wait for the next one (gaps 8.5). */
export async function deactivate(
  call: Call,
  { id, reason, markFailed }: pb.DeactivateGatewayRequest,
  core: Core,
): Promise<MessageInitShape<typeof pb.GatewaySchema>> {
  call.about({ id, reason });
  const gateway = await lockOne(call, id);
  const environment = environmentOf(call, gateway.environment);
  const moved = await move(call.em, gateway, markFailed ? "mark_failed" : "deactivate");
  const handed = moved.before === "active" ? await handOver(call.em, core, environment, null) : {};
  about(call, gateway, { mark_failed: markFailed, ...moved, ...handed });
  wakeAfterCommit(call, core, [gateway]);
  return answerGateway(await findGateway(call, environment.organizationId, id), core.timing);
}

/** Removes a gateway that is not active for good, in the call's transaction. */
export async function retireGateway(call: Call, { id }: pb.RetireGatewayRequest, core: Core): Promise<void> {
  call.about({ id });
  const gateway = await lockOne(call, id);
  about(call, gateway, { before: gateway.activation_status });
  if (gateway.activation_status === "active") throw wrongState("the gateway is active: deactivate it first");
  await retire(call.em, gateway);
  wakeAfterCommit(call, core, [gateway]);
}

const environmentOf = (call: Call, environment: string): Environment => ({
  organizationId: call.caller.organizationId,
  environment,
});

async function lockAll(call: Call, environment: Environment): Promise<GatewayRow[]> {
  await lockEnvironment(call.em, environment);
  return lockGateways(call.em, environment);
}

/** A gateway, with its environment and all that serve it. */
async function lockOne(call: Call, id: string): Promise<GatewayRow> {
  const { environment } = await findGateway(call, call.caller.organizationId, id);
  const gateways = await lockAll(call, environmentOf(call, environment));
  const gateway = gateways.find((each) => each.id === id.toLowerCase());
  if (gateway === undefined) throw notFound("gateway");
  return gateway;
}

function about(call: Call, { id, name, environment, role }: GatewayRow, details: Record<string, unknown>): void {
  call.about({ id, name, details: { environment, role, ...details } });
}

/** Those that the change concerns are told at once how they stand. */
function wakeAfterCommit(call: Call, { wakes }: Core, gateways: readonly GatewayRow[]): void {
  call.afterCommit(async () => {
    for (const { id } of gateways) wakes.wake(gatewayTopic(id));
  });
}
