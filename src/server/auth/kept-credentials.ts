import type { Database } from "../db/database.ts";
import { sessionPolicyOf } from "./organization-policies.ts";

/** A use is noted no more often than this, in any case. */
const touchMs = 60_000;

/** A row of api_token, with what a request needs of it. */
export interface KeptApiToken {
  readonly id: string;
  readonly owner_id: string;
  readonly permissions: string[];
  readonly project_ids: string[];
  readonly allowed_ips: string[];
  readonly rate_limit_per_minute: number | null;
  readonly expires_at: string | null;
  readonly revoked: boolean;
  readonly created_at: string;
  lastUsedMs: number;
}

/** A row of session, likewise. */
export interface KeptSession {
  readonly id: string;
  readonly identity_id: string;
  readonly credential_version: number;
  readonly expires_at: string;
  readonly ended: boolean;
  /** It ends when it is not used for so long. */
  readonly idleMs: number;
  lastUsedMs: number;
}

/** `hash` is that of the token, in hexadecimal digits. */
export async function readApiToken(db: Database, hash: string): Promise<KeptApiToken | undefined> {
  const [row] = await db.query<KeptApiToken & { readonly last_used_at: string | null }>(
    `select id, owner_id, permissions, project_ids, allowed_ips, rate_limit_per_minute, expires_at,
       revoked_at is not null as revoked, last_used_at, created_at from api_token where hash = $1`,
    [Buffer.from(hash, "hex")],
  );
  return row && { ...row, lastUsedMs: row.last_used_at === null ? 0 : Date.parse(row.last_used_at) };
}

/** `hash` is that of the cookie, in hexadecimal digits. */
export async function readSession(db: Database, hash: string): Promise<KeptSession | undefined> {
  const [row] = await db.query<KeptSession & { readonly last_used_at: string; readonly session_policy: object }>(
    `select s.id, s.identity_id, s.credential_version, s.last_used_at, s.expires_at, s.ended_at is not null as ended,
       o.session_policy
     from session s join organization o on o.id = s.organization_id where s.hash = $1`,
    [Buffer.from(hash, "hex")],
  );
  if (row === undefined) return undefined;
  const idleMs = sessionPolicyOf(row.session_policy).maxIdleTimeoutMinutes * 60_000;
  return { ...row, idleMs, lastUsedMs: Date.parse(row.last_used_at) };
}

/**
 * Notes the use, at most once a minute; the call does not wait for it. That of a session that may be idle for less than ten
 * minutes is noted more often: it ends by what was noted, and so up to a tenth too early.
 */
export function noteUse(db: Database, table: "api_token" | "session", kept: KeptApiToken | KeptSession): void {
  const now = Date.now();
  const everyMs = "idleMs" in kept ? Math.min(touchMs, kept.idleMs / 10) : touchMs;
  if (now - kept.lastUsedMs < everyMs) return;
  kept.lastUsedMs = now;
  // Of several replicas that note it at once, one does.
  const touch = `update ${table} set last_used_at = now()
    where id = $1 and (last_used_at is null or last_used_at < now() - make_interval(secs => $2::float8 - 1))`;
  db.query(touch, [kept.id, everyMs / 1000]).catch(() => {});
}

/** Whether an access token was not logged out; undefined means that it was. */
export async function readStanding(db: Database, jti: string): Promise<true | undefined> {
  const [revoked] = await db.query("select 1 from revoked_token where id = $1", [jti]);
  return revoked === undefined ? true : undefined;
}
