import type { Core } from "../context.ts";
import { Streams } from "../streams/streams.ts";
import type { Call } from "../wire/call.ts";
import { agentDisabled } from "./calling-agent.ts";

/** A file that an agent is asked for. */
export interface UploadRequest {
  readonly requestId: string;
  readonly filePath: string;
  readonly expectedHash: string;
}

interface News {
  readonly disabled: boolean;
  readonly requests: readonly UploadRequest[] | null;
}

/** What wakes the streams of an agent: there is a command for it, or it was disabled or removed. */
export const agentTopic = (agentId: string) => `agent:${agentId}`;

/** Kept for one stream at a time; others follow when these are answered, or nobody waits for them any more. */
const mostRequests = 100;

const selectNews = `select json_build_object('disabled', a.disabled_at is not null, 'requests', r.requests) as news
  from agent a
  cross join lateral (
    select json_agg(json_build_object('requestId', c.id, 'filePath', c.file_path, 'expectedHash', c.expected_hash)
      order by c.id) as requests
    from (select * from agent_command
      where agent_id = a.id and organization_id = a.organization_id and status = 'pending' and expires_at > now()
      order by id limit ${mostRequests}) c) r
  where a.id = q.subject_id and a.organization_id = q.organization_id
    and (a.disabled_at is not null or r.requests is not null)`;

/** The streams over which agents hear what they are asked for. */
export class CommandStreams {
  readonly #streams: Streams<News>;

  constructor(core: Pick<Core, "db" | "logger" | "wakes">) {
    this.#streams = new Streams(core, {
      name: "commands for agents",
      permission: "agent:report",
      news: selectNews,
      topic: agentTopic,
    });
  }

  /**
   * What the calling agent is asked for, each once. Ends as Streams.watch says, and with PERMISSION_DENIED when the agent
   * is disabled.
   */
  async *watch(call: Call, signal: AbortSignal): AsyncGenerator<UploadRequest> {
    let told: ReadonlySet<string> = new Set();
    for await (const news of this.#streams.watch(call, call.caller.id, signal)) {
      if (news?.disabled === true) throw agentDisabled();
      const requests = news?.requests ?? [];
      const untold = requests.filter(({ requestId }) => !told.has(requestId));
      // What waits no more need not be remembered.
      told = new Set(requests.map(({ requestId }) => requestId));
      yield* untold;
    }
  }
}
