import { AgentLinkService as agentLink } from "../../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { AgentService as agentAdministration } from "../../../gen/ts/holdfast/agents/v1/agent_service_pb.ts";
import type { Context } from "../context.ts";
import { Agent, AgentCommand, AgentEnrollmentToken } from "./agent.ts";
import { AgentLinkService } from "./agent-link-service.ts";
import { agentStatus } from "./agent-record.ts";
import { AgentService } from "./agent-service.ts";
import { CommandStreams } from "./command-streams.ts";
import { purgeJob } from "./purge.ts";

export const agents: Context = {
  entities: [Agent, AgentEnrollmentToken, AgentCommand],
  services: (core, identities) => [
    { descriptor: agentAdministration, implementation: new AgentService(identities, core.wakes) },
    { descriptor: agentLink, implementation: new AgentLinkService(identities, new CommandStreams(core)) },
  ],
  jobs: (core) => [purgeJob(core)],
  statistics: { active_agents: `select count(*) from agent a where ${agentStatus} = 'online'` },
};
