import type { Client } from "@connectrpc/connect";
import {
  type Agent,
  AgentSchema,
  AgentService,
  type EnrollmentToken,
  EnrollmentTokenSchema,
} from "../../../gen/ts/holdfast/agents/v1/agent_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { isId, theOnly } from "../find.ts";
import { note, printOnce, printRecord, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { openSession } from "../session.ts";

export interface AgentListOptions extends Json {
  readonly search?: string;
  readonly status?: string;
}
export interface RemoveAgentOptions {
  readonly yes?: boolean;
}
export interface EnrollmentTokenOptions extends Json {
  readonly hostname?: string;
  readonly ttlHours?: number;
}

export async function list({ search, status, ...options }: AgentListOptions): Promise<void> {
  const api = openSession();
  const agents = await allPages((page) => api(AgentService).listAgents({ search, status, ...page }));
  printRecords(
    AgentSchema,
    agents,
    [
      ["HOST", ({ hostname }) => hostname],
      ["STATUS", ({ status: current }) => current],
      ["LAST HEARTBEAT", ({ lastHeartbeat }) => timeText(lastHeartbeat)],
      ["LAST SCAN", ({ lastScanAt }) => timeText(lastScanAt)],
      ["KEYTABS", ({ discoveredCount }) => String(discoveredCount)],
      ["VERSION", ({ version }) => version],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

/** A command that does one thing to an agent and shows the record. */
const onAgent =
  (act: (agents: Client<typeof AgentService>, id: string) => Promise<Agent>) =>
  async (host: string, options: Json): Promise<void> => {
    const api = openSession();
    printAgent(await act(api(AgentService), await findAgentId(api, host)), options);
  };

export const show = onAgent((agents, id) => agents.getAgent({ id }));
export const disable = onAgent((agents, id) => agents.disableAgent({ id }));
export const enable = onAgent((agents, id) => agents.enableAgent({ id }));

export async function remove(host: string, { yes }: RemoveAgentOptions): Promise<void> {
  const api = openSession();
  const id = await findAgentId(api, host);
  const question = `Remove the agent ${host}, its identity and the records of what it found?`;
  if (!yes && !(await askConsent(question, "agree with --yes"))) return note("nothing was removed");
  await api(AgentService).deleteAgent({ id });
  note(`removed ${host}`);
}

export async function createToken({ hostname = "", ttlHours, ...options }: EnrollmentTokenOptions): Promise<void> {
  const token = await openSession()(AgentService).createEnrollmentToken({ hostname, ttlHours });
  if (options.json) return printRestRecord(EnrollmentTokenSchema, token);
  const host = token.hostname ?? "any host";
  printOnce(
    token.token,
    `the token that ${host} enrolls with is shown this once; it ends ${timeText(token.expiresAt)}`,
  );
}

const tokensOf = (api: Api): Promise<EnrollmentToken[]> =>
  allPages((page) => api(AgentService).listEnrollmentTokens(page));

export async function listTokens(options: Json): Promise<void> {
  printRecords(
    EnrollmentTokenSchema,
    await tokensOf(openSession()),
    [
      ["PREFIX", ({ prefix }) => prefix],
      ["HOST", ({ hostname }) => hostname ?? "any"],
      ["EXPIRES", ({ expiresAt }) => timeText(expiresAt)],
      ["CREATED", ({ createdAt }) => timeText(createdAt)],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function revokeToken(reference: string): Promise<void> {
  const api = openSession();
  const id = isId(reference) ? reference : await findTokenByPrefix(api, reference);
  await api(AgentService).revokeEnrollmentToken({ id });
  note(`revoked ${reference}`);
}

async function findTokenByPrefix(api: Api, prefix: string): Promise<string> {
  const found = (await tokensOf(api)).filter((token) => token.prefix === prefix);
  const describe = ({ id, hostname }: EnrollmentToken) => `${id}  ${hostname ?? "any host"}`;
  return theOnly(`token ${prefix} that can still be used`, found, describe, "say which by its id").id;
}

/** A host that was set up anew may have had another agent before. */
async function findAgentId(api: Api, host: string): Promise<string> {
  if (isId(host)) return host;
  const found = await allPages((page) => api(AgentService).listAgents({ search: host, ...page }));
  const named = found.filter(({ hostname }) => hostname.toLowerCase() === host.toLowerCase());
  const describe = ({ id, status, createdAt }: Agent) => `${id}  ${status}, enrolled ${timeText(createdAt)}`;
  return theOnly(`agent ${host}`, named, describe, "say which by its id").id;
}

function printAgent(agent: Agent, options: Json): void {
  printRecord(
    AgentSchema,
    agent,
    [
      ["host", ({ hostname }) => hostname],
      ["id", ({ id }) => id],
      ["status", ({ status }) => status],
      ["version", ({ version }) => version],
      ["operating system", ({ os }) => os],
      ["last heartbeat", ({ lastHeartbeat }) => timeText(lastHeartbeat)],
      ["last scan", ({ lastScanAt }) => timeText(lastScanAt)],
      ["keytabs", ({ discoveredCount }) => String(discoveredCount)],
      ["enrolled", ({ createdAt }) => timeText(createdAt)],
      ["could not read", ({ scanErrors }) => (scanErrors.length === 0 ? "-" : String(scanErrors.length))],
    ],
    options,
  );
  if (!options.json) for (const { path, reason } of agent.scanErrors) say(`  ${path}: ${reason}`);
}
