import type { JsonObject } from "@bufbuild/protobuf";
import type { AuditEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { asSystem } from "../jobs.ts";
import { isExpired } from "../secrets/secret-record.ts";
import { type Attempt, syncEvent } from "./sync-event.ts";

/** A link that nobody else writes meanwhile, and all that it takes to reach its place. */
export interface ClaimedLink {
  readonly id: string;
  readonly claimId: string;
  readonly organizationId: string;
  readonly projectId: string;
  readonly secretId: string;
  /** The secret's name. */
  readonly key: string;
  /** The link's own, or else the secret's. */
  readonly environment: string | null;
  readonly integration: string;
  readonly config: JsonObject;
  /** Sealed. */
  readonly credentials: Buffer | null;
  readonly owned: boolean;
  /** The wrapped key of the secret; none when that is damaged. */
  readonly wrapped: Buffer | null;
}

/** A link that is to be written now. */
export interface DueLink extends Attempt {
  /** The value; none when the row is damaged. */
  readonly sealed: Buffer | null;
}

/** For how long a claim keeps others away: longer than an attempt may take. */
export const claimSeconds = 40;

/** Columns of link `l`, its secret `s` and the secret's key `k` as a ClaimedLink. */
export const claimedColumns = `l.id, l.claim_id as "claimId", l.organization_id as "organizationId",
  s.project_id as "projectId", l.secret_id as "secretId", s.key, coalesce(l.environment, s.environment) as environment,
  l.integration, l.config, l.credentials, l.owned, k.wrapped`;

/** Attempts at one host at a time, over all replicas (gaps 4.2). */
const mostPerHost = 5;

/** Looked at in one statement; the next one goes on behind them. */
const hostsPerRound = 500;

/** One at a time over all replicas: who counts the attempts at a host must see all of them. */
const takeTurns = "select pg_advisory_xact_lock(hashtextextended('holdfast:links', 0))";

/**
 * Walks from host to host behind $1, by an index that has them in order, takes of each what is due and may run beside what
 * runs there already, and of all those first the first of each host, then the second: a host with much to do keeps nobody
 * waiting. What turns out not to be wanted any more is claimed by nobody: that is judged by locked secrets, or a link whose
 * secret was restored at this very moment would stay off. Versions are those whose values this statement can see.
 */
const claimNext = `with recursive hosts (host) as (
    (select host from secret_link where due_at is not null and host > $1 order by host limit 1)
    union all
    select (select l.host from secret_link l where l.due_at is not null and l.host > h.host order by l.host limit 1)
    from hosts h where h.host is not null),
  walked as materialized (select host from hosts where host is not null limit $2),
  due as materialized (
    select first.id, walked.host, first.turn from walked
    cross join lateral (
      select count(*)::int as running from secret_link c
      where c.host = walked.host and c.claim_id is not null and c.due_at > now()) busy
    cross join lateral (
      select d.id, row_number() over (order by d.due_at, d.id) as turn from (
        select id, due_at from secret_link where host = walked.host and due_at <= now()
        order by due_at limit greatest(0, $3 - busy.running)) d) first
    order by first.turn, walked.host limit $4),
  taken as (
    select l.id, l.claimed_version, l.failures, (select seen.version from secret seen where seen.id = s.id) as version,
      l.sync_enabled and s.status = 'active' and not ${isExpired} as wanted
    from secret_link l join secret s on s.id = l.secret_id
    where l.id in (select id from due) and l.due_at <= now()
    for no key update of l skip locked for share of s skip locked),
  claimed as (
    update secret_link l set status = case when t.wanted then 'syncing' else 'disabled' end,
      claim_id = case when t.wanted then gen_random_uuid() end, again = false,
      claimed_version = case when t.wanted then t.version end,
      due_at = case when t.wanted then now() + make_interval(secs => $5) end,
      failures = l.failures + case when t.claimed_version is null then 0 else 1 end,
      last_error_code = case when t.claimed_version is null then l.last_error_code else $6 end,
      last_error_message = case when t.claimed_version is null then l.last_error_message else $7 end,
      last_error_at = case when t.claimed_version is null then l.last_error_at else now() end
    from taken t where l.id = t.id returning l.*)
  select w.next, r.* from (select case when count(*) = $2 then max(host) end as next from walked) w
  left join (
    select ${claimedColumns}, due.host, due.turn, t.wanted, s.version, v.sealed, l.failures + 1 as attempt,
      t.claimed_version as "unreportedVersion"
    from claimed l join taken t on t.id = l.id join due on due.id = l.id join secret s on s.id = l.secret_id
    left join secret_version v on v.secret_id = s.id and v.version = l.claimed_version
    left join data_key k on k.record_id = s.id) r on true
  order by r.turn, r.host`;

/** What was claimed before already, by somebody who has said nothing since. */
export interface Unreported extends ClaimedLink {
  /** What was to be written; none when nothing was. */
  readonly unreportedVersion: number | null;
  /** The one that is to come. */
  readonly attempt: number;
}

interface Taken extends DueLink, Unreported {
  readonly host: string;
  readonly wanted: boolean;
}

/** Also when nothing is due there is one: that of the walk. */
type Row = { readonly next: string | null } & (Taken | { readonly id: null });

/** What was claimed, and behind which host there may be more; undefined after the last one. */
interface Round {
  readonly links: readonly DueLink[];
  readonly next: string | undefined;
}

/** Claims at most so many links, at hosts behind the given one; at all of them when it is empty. */
export async function claimDue({ db, audit }: Pick<Core, "db" | "audit">, after: string, most: number): Promise<Round> {
  const { code, message } = unreported;
  return asSystem(db, async (em) => {
    await run(em, takeTurns, []);
    const rows = await run<Row>(em, claimNext, [after, hostsPerRound, mostPerHost, most, claimSeconds, code, message]);
    const taken = rows.filter((row) => row.id !== null);
    await audit.record(em, taken.flatMap(unreportedEvents));
    const next = taken.length === most ? taken.at(-1)?.host : (rows[0]?.next ?? undefined);
    return { links: taken.filter(({ wanted }) => wanted), next };
  });
}

/** What a worker is taken to have met that did not live to tell. */
const unreported = { code: "timed_out", message: "nobody has reported how the attempt ended" } as const;

/** Of an attempt that nobody reported, which is made up for as soon as somebody else claims the link. */
export const unreportedEvents = ({ unreportedVersion, attempt, ...link }: Unreported): AuditEvent[] =>
  unreportedVersion === null
    ? []
    : [syncEvent({ ...link, version: unreportedVersion, attempt: attempt - 1 }, unreported)];
