import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import type { Identities } from "../context.ts";
import { callOf } from "../wire/call.ts";
import { callingAgent } from "./calling-agent.ts";
import type { CommandStreams } from "./command-streams.ts";
import { enrollAgent } from "./enroll.ts";

const heartbeatIntervalSeconds = 30;

/** The methods of agent_link_service.proto. */
export class AgentLinkService implements ServiceImpl<typeof pb.AgentLinkService> {
  readonly #identities: Identities;
  readonly #streams: CommandStreams;

  constructor(identities: Identities, streams: CommandStreams) {
    this.#identities = identities;
    this.#streams = streams;
  }

  enroll(request: pb.EnrollRequest, context: HandlerContext) {
    return enrollAgent(callOf(context), this.#identities, request);
  }

  async heartbeat({ version, os }: pb.HeartbeatRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id, organizationId } = call.caller;
    const beaten = await call.query(
      `update agent set last_heartbeat = now(), version = $3, os = $4
       where id = $1 and organization_id = $2 and disabled_at is null returning 1`,
      [id, organizationId, version, os],
    );
    // Says why not.
    if (beaten.length === 0) await callingAgent(call);
    return { intervalSeconds: heartbeatIntervalSeconds };
  }

  async *watchCommands(_request: pb.WatchCommandsRequest, context: HandlerContext) {
    const call = callOf(context);
    await callingAgent(call);
    yield { kind: { case: "welcome" as const, value: { heartbeatIntervalSeconds } } };
    for await (const value of this.#streams.watch(call, context.signal)) {
      yield { kind: { case: "uploadKeytab" as const, value } };
    }
  }
}
