import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import { Conditions } from "../db/page.ts";
import { notFound } from "../errors.ts";
import { callOf } from "../wire/call.ts";
import { activateDr, deactivate, failback, retireGateway } from "./failover.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { gatewayHealth } from "./gateway-health.ts";
import { answerGateway, listGateways } from "./gateway-record.ts";
import { listTasks } from "./task-record.ts";

/** The methods of gateway_service.proto. */
export class GatewayService implements ServiceImpl<typeof pb.GatewayService> {
  readonly #core: GatewayCore;

  constructor(core: GatewayCore) {
    this.#core = core;
  }

  getGatewayHealth(_request: pb.GetGatewayHealthRequest, context: HandlerContext) {
    return gatewayHealth(callOf(context), this.#core);
  }

  async listGateways(_request: pb.ListGatewaysRequest, context: HandlerContext) {
    const call = callOf(context);
    const gateways = await listGateways(call, call.caller.organizationId);
    return { gateways: gateways.map((gateway) => answerGateway(gateway, this.#core.timing)) };
  }

  async listGatewayTasks({ id, status, limit }: pb.ListGatewayTasksRequest, context: HandlerContext) {
    const call = callOf(context);
    const own = [id, call.caller.organizationId];
    // A retired one too: its tasks stay on record.
    const found = await call.query("select 1 from gateway where id = $1 and organization_id = $2", own);
    if (found.length === 0) throw notFound("gateway");
    const where = new Conditions()
      .add("t.gateway_id = ?", id)
      .add("t.organization_id = ?", call.caller.organizationId)
      .add("t.status = ?", status);
    return { tasks: await listTasks(call, where, limit) };
  }

  activateDr(request: pb.ActivateDrRequest, context: HandlerContext) {
    return activateDr(callOf(context), request, this.#core);
  }

  failback(request: pb.FailbackRequest, context: HandlerContext) {
    return failback(callOf(context), request, this.#core);
  }

  deactivateGateway(request: pb.DeactivateGatewayRequest, context: HandlerContext) {
    return deactivate(callOf(context), request, this.#core);
  }

  async retireGateway(request: pb.RetireGatewayRequest, context: HandlerContext) {
    await retireGateway(callOf(context), request, this.#core);
    return {};
  }
}
