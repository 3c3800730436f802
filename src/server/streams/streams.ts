import { builtInRoles } from "../auth/roles.ts";
import type { Core } from "../context.ts";
import { authInvalid, permissionDenied } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { OpenStream } from "./open-stream.ts";

/** What streams are about, and who may hold one open. */
export interface StreamKind {
  /** As in "commands for agents"; for the log. */
  readonly name: string;
  /** What a stream takes as long as it is open. */
  readonly permission: string;
  /**
   * A query for what there is to say of `q.subject_id` to `q.identity_id`, both of `q.organization_id`: one column `news`
   * of JSON. Without a row there is nothing to say.
   */
  readonly news: string;
  /** What wakes the streams of a subject. */
  topic(subjectId: string): string;
}

/** A stream that there is nothing to say to has no row. */
interface Row<News> {
  readonly position: number;
  readonly ending: "denied" | "ended" | null;
  readonly news: News | null;
}

/** What a hint that got lost costs. */
const pollMs = 1000;
/** Of one subject on one replica. A host that loses its connection without a word leaves its stream behind. */
const mostStreams = 4;

/** The arrays come out of a subquery that is not flattened, so that the statement is not planned anew each time. */
const selectNews = ({ permission, news }: StreamKind) => `select q.position::int, e.ending, n.news
  from (select $1::uuid[] as subjects, $2::uuid[] as identities, $3::uuid[] as organizations, $4::int[] as versions,
      $5::uuid[] as credentials, $6::text[] as roles offset 0) as open,
    unnest(open.subjects, open.identities, open.organizations, open.versions, open.credentials) with ordinality
      as q (subject_id, identity_id, organization_id, version, credential_id, position)
  left join machine_identity m on m.id = q.identity_id and m.organization_id = q.organization_id
    and m.status = 'active' and m.credential_version = q.version
  cross join lateral (select case
      when m.id is null or exists (select from revoked_token t where t.id = q.credential_id)
        or exists (select from api_token t where t.id = q.credential_id and t.revoked_at is not null) then 'ended'
      when not exists (
        select from role_binding b left join role on role.organization_id = b.organization_id and role.name = b.role
        where b.identity_id = m.id and b.project_id is null
          and (b.role = any(open.roles) or '${permission}' = any(role.permissions))) then 'denied' end as ending) e
  left join lateral (${news}) n on e.ending is null
  where e.ending is not null or n.news is not null`;

/**
 * The streams of one kind that are open on this replica. One statement a second asks for the news of them all; a hint
 * only makes it sooner, for the subject that it is about. So an idle stream costs a row of that statement's arguments.
 */
export class Streams<News> {
  readonly #core: Pick<Core, "db" | "logger" | "wakes">;
  readonly #kind: StreamKind;
  readonly #select: string;
  readonly #builtInHolders: readonly string[];
  /** By subject, the oldest first. */
  readonly #open = new Map<string, Set<OpenStream<News>>>();
  /** Those whose news were not yet asked for. */
  readonly #due = new Set<OpenStream<News>>();
  #isLooking = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(core: Pick<Core, "db" | "logger" | "wakes">, kind: StreamKind) {
    this.#core = core;
    this.#kind = kind;
    this.#select = selectNews(kind);
    this.#builtInHolders = Object.keys(builtInRoles).filter((role) => builtInRoles[role]?.includes(kind.permission));
  }

  /**
   * All that there is to say of the subject, each time that somebody looked, until the caller goes, its credential is past
   * its end, or the server stops; undefined when there is nothing. Throws PERMISSION_DENIED when the caller lacks the
   * permission by now, and AUTH_INVALID when it or what it logged in with is no more.
   */
  async *watch(call: Call, subjectId: string, signal: AbortSignal): AsyncGenerator<News | undefined> {
    const stream = new OpenStream<News>(call, subjectId);
    const end = () => stream.end();
    if (signal.aborted) end();
    signal.addEventListener("abort", end);
    this.#add(stream);
    const stopListening = this.#core.wakes.on(this.#kind.topic(subjectId), () => this.#look([stream]));
    this.#look([stream]);
    try {
      yield* stream.news();
    } finally {
      stopListening();
      this.#remove(stream);
      signal.removeEventListener("abort", end);
    }
  }

  #add(stream: OpenStream<News>): void {
    const ofSubject = this.#open.get(stream.subjectId) ?? new Set();
    const [oldest] = ofSubject;
    if (ofSubject.size === mostStreams) oldest?.end();
    this.#open.set(stream.subjectId, ofSubject.add(stream));
    this.#timer ??= setInterval(() => this.#look([...this.#open.values()].flatMap((streams) => [...streams])), pollMs);
  }

  #remove(stream: OpenStream<News>): void {
    const ofSubject = this.#open.get(stream.subjectId);
    ofSubject?.delete(stream);
    this.#due.delete(stream);
    if (ofSubject?.size === 0) this.#open.delete(stream.subjectId);
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Asks for the news of these streams; what becomes due meanwhile is asked for next, in one statement. */
  #look(streams: Iterable<OpenStream<News>>): void {
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
        this.#core.logger.debug({ err }, `${this.#kind.name} could not be read`);
      }
    }
    this.#isLooking = false;
  }

  async #tellNews(streams: readonly OpenStream<News>[]): Promise<void> {
    const rows = await this.#core.db.query<Row<News>>(this.#select, [
      streams.map(({ subjectId }) => subjectId),
      streams.map(({ identityId }) => identityId),
      streams.map(({ organizationId }) => organizationId),
      streams.map(({ credentialVersion }) => credentialVersion),
      streams.map(({ credentialId }) => credentialId),
      this.#builtInHolders,
    ]);
    const byPosition = new Map(rows.map((row) => [row.position, row]));
    streams.forEach((stream, index) => {
      const row = byPosition.get(index + 1);
      if (stream.hasExpired) stream.end();
      if (row?.ending === "denied") stream.end(permissionDenied(this.#kind.permission));
      if (row?.ending === "ended") stream.end(authInvalid());
      stream.update(row?.news ?? undefined);
    });
  }
}
