import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HeartbeatRequest, StandingSchema } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { conflict } from "../errors.ts";
import { asSystem } from "../jobs.ts";
import type { Call } from "../wire/call.ts";
import { type CallingGateway, callingGateway } from "./calling-gateway.ts";
import { lockEnvironment } from "./environment-lock.ts";
import { move } from "./gateway-changes.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { lockGateways } from "./gateway-record.ts";
import { type StandingRow, standing, standingColumns } from "./standing.ts";
import { gatewayTopic } from "./task-streams.ts";

/**
 * Takes a heartbeat and answers how the gateway stands: one statement, unless a failed DR gateway is back, which returns
 * to standby (G-8.6). Throws NOT_FOUND for a gateway that is not the caller's, FAILED_PRECONDITION for a retired one, and
 * ABORTED when another instance of it has registered.
 */
export async function beat(
  call: Call,
  request: HeartbeatRequest,
  core: Pick<GatewayCore, "audit" | "db" | "timing" | "wakes">,
): Promise<MessageInitShape<typeof StandingSchema>> {
  let row = await record(call, request);
  if (row === undefined) {
    await recover(call, await callingGateway(call, request), core);
    row = await record(call, request);
  }
  if (row === undefined) throw conflict("the gateway changes at this moment");
  return standing(row, core.timing);
}

const self =
  "g.id = $1 and g.organization_id = $2 and g.identity_id = $3 and g.instance_id = $4 and g.retired_at is null";

async function record(call: Call, { gatewayId, instanceId }: HeartbeatRequest): Promise<StandingRow | undefined> {
  const { id: identityId, organizationId } = call.caller;
  const values = [gatewayId, organizationId, identityId, instanceId];
  const [beaten] = await call.query<StandingRow>(
    `update gateway g set last_heartbeat = now(), silent_since = now()
     where ${self} and not (g.role = 'dr-standby' and g.activation_status = 'failed') returning ${standingColumns}`,
    values,
  );
  // It waited for the transaction that activated the gateway, and saw the lock as it was before.
  if (beaten?.activation_status !== "active" || beaten.fencing_token !== null) return beaten;
  const [seenWhole] = await call.query<StandingRow>(`select ${standingColumns} from gateway g where ${self}`, values);
  return seenWhole;
}

async function recover(
  call: Call,
  { id, environment }: CallingGateway,
  { audit, db, wakes }: Pick<GatewayCore, "audit" | "db" | "wakes">,
): Promise<void> {
  const { organizationId } = call.caller;
  await asSystem(db, async (em) => {
    await lockEnvironment(em, { organizationId, environment });
    const gateways = await lockGateways(em, { organizationId, environment });
    const gateway = gateways.find((each) => each.id === id);
    if (gateway === undefined) return;
    const moved = await move(em, gateway, "heartbeat");
    if (moved.before === moved.after) return;
    const subject = { id, name: gateway.name, details: { environment, ...moved } };
    await audit.record(em, [call.event("gateway.recover", "success", { subject, bySystem: true })]);
  });
  wakes.wake(gatewayTopic(id));
}
