import type { Context } from "../context.ts";
import { Agent, AgentCommand, AgentEnrollmentToken } from "./agent.ts";

export const agents: Context = {
  entities: [Agent, AgentEnrollmentToken, AgentCommand],
};
