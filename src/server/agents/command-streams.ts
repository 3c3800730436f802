import { builtInRoles } from "../auth/roles.ts";
import type { Core } from "../context.ts";
import { authInvalid, permissionDenied } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { agentDisabled } from "./calling-agent.ts";
import { CommandStream, type UploadRequest } from "./command-stream.ts";

/** What wakes the streams of an agent: there is a command for it, or it was disabled or removed. */
export const agentTopic = (agentId: string) => `agent:${agentId}`;

/** What a hint that got lost costs. */
const pollMs = 1000;
/** Kept for one stream at a time; others follow when these are answered, or nobody waits for them any more. */
const mostRequests = 100;
/** Of one agent on one replica. A host that loses its connection without a word leaves its stream behind. */
const mostStreams = 4;

/** What a stream takes as long as it is open, and the built-in roles that hold it. */
const permission = "agent:report";
const builtInHolders = Object.keys(builtInRoles).filter((role) => builtInRoles[role]?.includes(permission));

/** What there is to say to a stream: why it ends, or a request; a stream that there is nothing to say to has no row. */
interface Row {
  readonly position: number;
  readonly standing: "denied" | "disabled" | "ended" | null;
  readonly request: UploadRequest | null;
}

/** The arrays come out of a subquery that is not flattened, so that the statement is not planned anew each time. */
const selectNews = `select q.position::int, s.standing, r.request
  from (select $1::uuid[] as agents, $2::uuid[] as organizations, $3::int[] as versions, $4::uuid[] as credentials,
      $5::text[] as roles offset 0) as open,
    unnest(open.agents, open.organizations, open.versions, open.credentials) with ordinality
      as q (agent_id, organization_id, version, credential_id, position)
  left join agent a on a.id = q.agent_id and a.organization_id = q.organization_id
  left join machine_identity m on m.id = a.id and m.status = 'active' and m.credential_version = q.version
  cross join lateral (select case
      when m.id is null or exists (select from revoked_token t where t.id = q.credential_id)
        or exists (select from api_token t where t.id = q.credential_id and t.revoked_at is not null) then 'ended'
      when a.disabled_at is not null then 'disabled'
      when not exists (
        select from role_binding b left join role on role.organization_id = b.organization_id and role.name = b.role
        where b.identity_id = m.id and b.project_id is null
          and (b.role = any(open.roles) or '${permission}' = any(role.permissions))) then 'denied' end as standing) s
  left join lateral (
    select json_build_object('requestId', c.id, 'filePath', c.file_path, 'expectedHash', c.expected_hash) as request
    from agent_command c where c.agent_id = a.id and c.organization_id = a.organization_id
      and c.status = 'pending' and c.expires_at > now()
    order by c.id limit ${mostRequests}) r on true
  where s.standing is not null or r.request is not null
  order by q.position`;

/**
 * The streams that agents have open on this replica. One statement a second asks for the news of them all; a hint only
 * makes it sooner, for the agent that it is about. So an idle stream costs a row of that statement's arguments.
 */
export class CommandStreams {
  readonly #core: Pick<Core, "db" | "logger" | "wakes">;
  /** By agent, the oldest first. */
  readonly #open = new Map<string, Set<CommandStream>>();
  /** Those whose news were not yet asked for. */
  readonly #due = new Set<CommandStream>();
  #isLooking = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(core: Pick<Core, "db" | "logger" | "wakes">) {
    this.#core = core;
  }

  /**
   * What the calling agent is asked for, until it goes, its credential is past its end, or the server stops. Throws
   * PERMISSION_DENIED when the agent is disabled or may report no more, and AUTH_INVALID when it or what it logged in with
   * is no more.
   */
  async *watch(call: Call, signal: AbortSignal): AsyncGenerator<UploadRequest> {
    const stream = new CommandStream(call);
    const end = () => stream.end();
    if (signal.aborted) end();
    signal.addEventListener("abort", end);
    this.#add(stream);
    const stopListening = this.#core.wakes.on(agentTopic(stream.agentId), () => this.#look([stream]));
    this.#look([stream]);
    try {
      yield* stream.requests();
    } finally {
      stopListening();
      this.#remove(stream);
      signal.removeEventListener("abort", end);
    }
  }

  #add(stream: CommandStream): void {
    const ofAgent = this.#open.get(stream.agentId) ?? new Set();
    const [oldest] = ofAgent;
    if (ofAgent.size === mostStreams) oldest?.end();
    this.#open.set(stream.agentId, ofAgent.add(stream));
    this.#timer ??= setInterval(() => this.#look([...this.#open.values()].flatMap((streams) => [...streams])), pollMs);
  }

  #remove(stream: CommandStream): void {
    const ofAgent = this.#open.get(stream.agentId);
    ofAgent?.delete(stream);
    this.#due.delete(stream);
    if (ofAgent?.size === 0) this.#open.delete(stream.agentId);
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Asks for the news of these streams; what becomes due meanwhile is asked for next, in one statement. */
  #look(streams: Iterable<CommandStream>): void {
    for (const stream of streams) this.#due.add(stream);
    if (!this.#isLooking) void this.#lookAtDue();
  }

  async #lookAtDue(): Promise<void> {
    this.#isLooking = true;
    while (this.#due.size > 0) {
      const streams = [...this.#due];
      this.#due.clear();
      try {
        await this.#tellNews(streams);
      } catch (err) {
        // A second later there is another chance.
        this.#core.logger.debug({ err }, "the commands for agents could not be read");
      }
    }
    this.#isLooking = false;
  }

  async #tellNews(streams: readonly CommandStream[]): Promise<void> {
    const rows = await this.#core.db.query<Row>(selectNews, [
      streams.map(({ agentId }) => agentId),
      streams.map(({ organizationId }) => organizationId),
      streams.map(({ credentialVersion }) => credentialVersion),
      streams.map(({ credentialId }) => credentialId),
      builtInHolders,
    ]);
    const byPosition = Map.groupBy(rows, ({ position }) => position);
    streams.forEach((stream, index) => {
      const news = byPosition.get(index + 1) ?? [];
      if (stream.hasExpired) stream.end();
      if (news[0]?.standing === "denied") stream.end(permissionDenied(permission));
      if (news[0]?.standing === "disabled") stream.end(agentDisabled());
      if (news[0]?.standing === "ended") stream.end(authInvalid());
      stream.update(news.flatMap(({ request }) => request ?? []));
    });
  }
}
