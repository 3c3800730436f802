import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { callOf } from "../wire/call.ts";
import { claimTask } from "./claims.ts";
import { completeTask } from "./completions.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { beat } from "./heartbeats.ts";
import { registerGateway } from "./registration.ts";
import { TaskStreams } from "./task-streams.ts";

/** The methods of gateway_link_service.proto. */
export class GatewayLinkService implements ServiceImpl<typeof pb.GatewayLinkService> {
  readonly #core: GatewayCore;
  readonly #streams: TaskStreams;

  constructor(core: GatewayCore) {
    this.#core = core;
    this.#streams = new TaskStreams(core);
  }

  async register(request: pb.RegisterRequest, context: HandlerContext) {
    const { signal } = context;
    const answer = await registerGateway(callOf(context), request, this.#core);
    // A process that is gone must not take the place of the one that came after it, however late its call is dealt with.
    signal.throwIfAborted();
    return answer;
  }

  heartbeat(request: pb.HeartbeatRequest, context: HandlerContext) {
    return beat(callOf(context), request, this.#core);
  }

  watchTasks(request: pb.WatchTasksRequest, context: HandlerContext) {
    return this.#streams.watch(callOf(context), request, context.signal);
  }

  claimTask(request: pb.ClaimTaskRequest, context: HandlerContext) {
    return claimTask(callOf(context), request, this.#core);
  }

  completeTask(request: pb.CompleteTaskRequest, context: HandlerContext) {
    return completeTask(callOf(context), request, this.#core);
  }
}
