import type { MessageInitShape } from "@bufbuild/protobuf";
import type { NoticeSchema, WatchTasksRequest } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { Streams } from "../streams/streams.ts";
import type { Call } from "../wire/call.ts";
import { callingGateway, gatewayRetired, otherInstance } from "./calling-gateway.ts";
import { claimableType } from "./claims.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { type StandingRow, standing, standingColumns } from "./standing.ts";
import type { Timing } from "./timing.ts";

type Notice = MessageInitShape<typeof NoticeSchema>;

interface News extends StandingRow {
  readonly instance_id: string;
  readonly retired: boolean;
  /** The tasks that it may claim. */
  readonly waiting: number;
  readonly newest: string | null;
}

/** What wakes the streams of a gateway: it has a task, or stands differently. */
export const gatewayTopic = (gatewayId: string) => `gateway:${gatewayId}`;

/** What wakes those who wait for the end of a task: one of the same secret has ended. */
export const taskTopic = ({ secretId }: { readonly secretId: string }) => `task:${secretId}`;

const mostCounted = 1000;
/** Who has left tasks lying that it was told of is told of them again: its claim may have failed. */
const remindMs = 5000;

const selectNews = `select row_to_json(n) as news from (
    select ${standingColumns}, g.instance_id, g.retired_at is not null as retired, w.waiting, w.newest
    from gateway g
    cross join lateral (
      select count(*)::int as waiting, (array_agg(t.id order by t.id desc))[1] as newest
      from (select t.id from gateway_task t
        where t.gateway_id = g.id and t.status = 'pending' and t.type = ${claimableType}
        order by t.created_at desc, t.id desc limit ${mostCounted}) t) w
    where g.id = q.subject_id and g.organization_id = q.organization_id and g.identity_id = q.identity_id) n`;

/** The streams over which gateways hear how they stand, and that there are tasks to claim. */
export class TaskStreams {
  readonly #streams: Streams<News>;
  readonly #timing: Timing;

  constructor({ db, logger, wakes, timing }: Pick<GatewayCore, "db" | "logger" | "timing" | "wakes">) {
    this.#streams = new Streams(
      { db, logger, wakes },
      { name: "news for gateways", permission: "gateway:connect", news: selectNews, topic: gatewayTopic },
    );
    this.#timing = timing;
  }

  /**
   * How the calling gateway stands, and again with each change; and that there are tasks to claim, each time that there
   * are new ones. Ends as Streams.watch says, with ABORTED when another instance of the gateway has registered, and with
   * FAILED_PRECONDITION when it is retired.
   */
  async *watch(call: Call, request: WatchTasksRequest, signal: AbortSignal): AsyncGenerator<Notice> {
    const { id } = await callingGateway(call, request);
    const told = new Told(this.#timing);
    for await (const news of this.#streams.watch(call, id, signal)) {
      if (news === undefined) continue;
      if (news.retired) throw gatewayRetired();
      if (news.instance_id !== request.instanceId.toLowerCase()) throw otherInstance();
      yield* told.whatIsNew(news);
    }
  }
}

/** What a stream has told. */
class Told {
  readonly #timing: Timing;
  #standing = "";
  #newest: string | null = null;
  #remindAt = 0;

  constructor(timing: Timing) {
    this.#timing = timing;
  }

  *whatIsNew(news: News): Generator<Notice> {
    const { activation_status, fencing_token, deactivated, waiting, newest } = news;
    const how = JSON.stringify([activation_status, fencing_token, deactivated]);
    if (how !== this.#standing) {
      this.#standing = how;
      // What it was told before, it may have tried to claim as somebody else.
      this.#newest = null;
      yield { kind: { case: "standing", value: standing(news, this.#timing) } };
    }
    const isNew = newest !== this.#newest || performance.now() >= this.#remindAt;
    this.#newest = newest;
    if (newest === null || !isNew) return;
    this.#remindAt = performance.now() + remindMs;
    yield { kind: { case: "tasksWaiting", value: { count: waiting } } };
  }
}
