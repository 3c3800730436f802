import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/agents/v1/agent_service_pb.ts";
import { newAgentToken, prefixOf } from "../auth/generated-credentials.ts";
import { checkAdministratorRemains } from "../auth/lockout.ts";
import type { Core, Identities } from "../context.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { type AgentRow, agentColumns, agentStatus, answerAgent } from "./agent-record.ts";
import { agentTopic } from "./command-streams.ts";

interface TokenRow {
  readonly id: string;
  readonly prefix: string;
  readonly hostname: string | null;
  readonly expires_at: string;
  readonly created_at: string;
}

const tokenColumns = "t.id, t.prefix, t.hostname, t.expires_at, t.created_at";
const isUsable = "t.used_at is null and t.expires_at > now()";
const usualTtlHours = 24;

/** The methods of agent_service.proto. */
export class AgentService implements ServiceImpl<typeof pb.AgentService> {
  readonly #identities: Identities;
  readonly #wakes: Core["wakes"];

  constructor(identities: Identities, wakes: Core["wakes"]) {
    this.#identities = identities;
    this.#wakes = wakes;
  }

  async createEnrollmentToken(request: pb.CreateEnrollmentTokenRequest, context: HandlerContext) {
    const call = callOf(context);
    const { hostname, ttlHours = usualTtlHours } = request;
    const token = newAgentToken();
    const [row] = await run<TokenRow>(
      call.em,
      `insert into agent_enrollment_token as t (organization_id, prefix, hash, hostname, created_by, expires_at)
       values ($1, $2, $3, $4, $5, now() + make_interval(hours => $6)) returning ${tokenColumns}`,
      [
        call.caller.organizationId,
        prefixOf(token),
        this.#identities.hashOf(token),
        hostname.toLowerCase() || null,
        call.caller.id,
        ttlHours,
      ],
    );
    aboutToken(call, row as TokenRow);
    return { ...answerToken(row as TokenRow), token };
  }

  async listEnrollmentTokens({ page, perPage }: pb.ListEnrollmentTokensRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = new Conditions().add("t.organization_id = ?", call.caller.organizationId).require(isUsable);
    const select = { columns: tokenColumns, from: "agent_enrollment_token t", where, orderBy: "t.id desc" };
    const { rows, pagination } = await fetchPage<TokenRow>(call, select, { page, perPage });
    return { data: rows.map(answerToken), pagination };
  }

  async revokeEnrollmentToken({ id }: pb.RevokeEnrollmentTokenRequest, context: HandlerContext) {
    const call = callOf(context);
    // It stays for a day, so that an attempt to use it is recorded here.
    const [row] = await run<TokenRow>(
      call.em,
      `update agent_enrollment_token t set expires_at = now()
       where t.id = $1 and t.organization_id = $2 and ${isUsable} returning ${tokenColumns}`,
      [id, call.caller.organizationId],
    );
    if (row === undefined) throw notFound("enrollment token");
    aboutToken(call, row);
    return {};
  }

  async listAgents({ search, status, page, perPage }: pb.ListAgentsRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = new Conditions()
      .add("a.organization_id = ?", call.caller.organizationId)
      .contains("a.hostname", search)
      .add(`${agentStatus} = ?`, status);
    const select = { columns: agentColumns, from: "agent a", where, orderBy: "a.hostname, a.id" };
    const { rows, pagination } = await fetchPage<AgentRow>(call, select, { page, perPage });
    return { data: rows.map(answerAgent), pagination };
  }

  async getAgent({ id }: pb.GetAgentRequest, context: HandlerContext) {
    return answerAgent(await find(callOf(context), id));
  }

  async disableAgent({ id }: pb.DisableAgentRequest, context: HandlerContext) {
    const call = callOf(context);
    await run(
      call.em,
      "update agent set disabled_at = now() where id = $1 and organization_id = $2 and disabled_at is null",
      [id, call.caller.organizationId],
    );
    this.#wakeStreams(call, id);
    return answerAgent(await find(call, id));
  }

  async enableAgent({ id }: pb.EnableAgentRequest, context: HandlerContext) {
    const call = callOf(context);
    await run(
      call.em,
      "update agent set disabled_at = null where id = $1 and organization_id = $2 and disabled_at is not null",
      [id, call.caller.organizationId],
    );
    return answerAgent(await find(call, id));
  }

  async deleteAgent({ id }: pb.DeleteAgentRequest, context: HandlerContext) {
    const call = callOf(context);
    // Its identity first, as whoever removes that locks it first.
    await run(call.em, "select from machine_identity where id = $1 and organization_id = $2 for update", [
      id,
      call.caller.organizationId,
    ]);
    await find(call, id);
    // Somebody may have given it more than the role agent.
    await checkAdministratorRemains(call, id);
    await this.#identities.remove(call, id);
    this.#wakeStreams(call, id);
    return {};
  }

  /** The agent's streams look what has become of it, on whichever replica. */
  #wakeStreams(call: Call, id: string): void {
    call.afterCommit(async () => this.#wakes.wake(agentTopic(id)));
  }
}

async function find(call: Call, id: string): Promise<AgentRow> {
  const [row] = await call.query<AgentRow>(
    `select ${agentColumns} from agent a where a.id = $1 and a.organization_id = $2`,
    [id, call.caller.organizationId],
  );
  if (row === undefined) throw notFound("agent");
  call.about({ id: row.id, name: row.hostname });
  return row;
}

const answerToken = (row: TokenRow) => ({
  id: row.id,
  prefix: row.prefix,
  hostname: row.hostname ?? undefined,
  expiresAt: timestampOf(row.expires_at),
  createdAt: timestampOf(row.created_at),
});

function aboutToken(call: Call, { id, prefix, hostname, expires_at }: TokenRow): void {
  const details = { hostname, expires_at: new Date(expires_at).toISOString() };
  call.about({ type: "agent_enrollment_token", id, name: prefix, details });
}
