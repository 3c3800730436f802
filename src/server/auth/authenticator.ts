import type { KeyObject } from "node:crypto";
import type { Database } from "../db/database.ts";
import { authExpired, authInvalid, authRequired } from "../errors.ts";
import type { Logger } from "../logging.ts";
import type { Call } from "../wire/call.ts";
import type { Credential, Identity, Presented } from "../wire/identity.ts";
import type { AccessTokens } from "./access-tokens.ts";
import { Announcements, type Subject } from "./announcements.ts";
import { BriefMemory } from "./brief-memory.ts";
import { hashOf } from "./client-credentials.ts";
import { csrfTokenOf, idleMs } from "./cookies.ts";
import { addressCheck, type Holder, readHolder } from "./identities.ts";
import { restrict } from "./restriction.ts";

const rememberMs = 5000;
const touchMs = 60_000;

interface ApiTokenRow {
  readonly id: string;
  readonly owner_id: string;
  readonly permissions: string[];
  readonly project_ids: string[];
  readonly allowed_ips: string[];
  readonly rate_limit_per_minute: number | null;
  readonly expires_at: string | null;
  readonly revoked: boolean;
  readonly last_used_at: string | null;
  readonly created_at: string;
}

interface SessionRow {
  readonly id: string;
  readonly identity_id: string;
  readonly credential_version: number;
  readonly last_used_at: string;
  readonly expires_at: string;
  readonly ended: boolean;
  readonly created_at: string;
}

/** What was last made of a token's restriction, and of whom. */
interface Restricted {
  readonly of: Holder;
  readonly identity: Identity;
}

interface KnownApiToken extends ApiTokenRow {
  lastUsedMs: number;
  restricted?: Restricted;
}

interface KnownSession extends SessionRow {
  lastUsedMs: number;
}

interface Options {
  readonly db: Database;
  readonly logger: Logger;
  readonly tokens: AccessTokens;
  /** Keys the hashes of API tokens and session cookies. */
  readonly pepper: KeyObject;
  readonly csrfKey: KeyObject;
}

/**
 * Finds out who calls, by access token, API token or session. What it reads is remembered for at most five seconds
 * (G-9.5), and dropped on every replica when it changes.
 */
export class Authenticator {
  readonly #db: Database;
  readonly #tokens: AccessTokens;
  readonly #pepper: KeyObject;
  readonly #csrfKey: KeyObject;
  readonly #announcements: Announcements;
  readonly #holders: BriefMemory<Holder>;
  readonly #apiTokens: BriefMemory<KnownApiToken>;
  readonly #sessions: BriefMemory<KnownSession>;
  /** Access tokens that were not logged out. */
  readonly #accessTokens: BriefMemory<true>;

  constructor({ db, logger, tokens, pepper, csrfKey }: Options) {
    this.#db = db;
    this.#tokens = tokens;
    this.#pepper = pepper;
    this.#csrfKey = csrfKey;
    this.#announcements = new Announcements(db, logger, (subject) => this.#drop(subject));
    const memory = <Value>(read: (key: string) => Promise<Value | undefined>) =>
      new BriefMemory(read, rememberMs, () => this.#announcements.listening);
    this.#holders = memory((id) => readHolder(db, id));
    this.#apiTokens = memory((hash) => this.#readApiToken(hash));
    this.#sessions = memory((hash) => this.#readSession(hash));
    this.#accessTokens = memory((jti) => this.#readStanding(jti));
  }

  start(): Promise<void> {
    return this.#announcements.start();
  }

  stop(): void {
    this.#announcements.stop();
  }

  /** Throws AUTH_EXPIRED, or AUTH_INVALID also when the identity was disabled or removed. */
  async authenticate({ bearer, cookie }: Presented): Promise<Identity> {
    // A JWT has dots, and an API token none.
    if (bearer?.includes(".")) return this.#byAccessToken(bearer);
    if (bearer !== undefined) return this.#byApiToken(bearer);
    if (cookie !== undefined) return this.#bySession(cookie);
    throw authRequired();
  }

  /** What these identities hold changes with this call: once it has committed, every replica sees it. */
  forget(call: Call, ids: readonly string[]): Promise<void> {
    return this.#announcements.announce(
      call,
      ids.map((id) => `identity:${id}` as const),
    );
  }

  /** As `forget`, for a change that concerns more identities than one would name. */
  forgetAll(call: Call): Promise<void> {
    return this.#announcements.announce(call, ["everything"]);
  }

  /** A credential ends with this call, on every replica. API tokens and sessions are known by the hash that is kept of them. */
  end(call: Call, type: Credential["type"], key: string | Buffer): Promise<void> {
    return this.#announcements.announce(call, [`${type}:${typeof key === "string" ? key : key.toString("hex")}`]);
  }

  async #byAccessToken(token: string): Promise<Identity> {
    const { claims, jti, authenticatedAt, expiresAt } = await this.#tokens.verify(token);
    const [holder, standing] = await Promise.all([this.#holders.get(claims.sub), this.#accessTokens.get(jti)]);
    if (standing === undefined || !admitsVersion(holder, claims.credential_version, jti)) throw authInvalid();
    return { ...holder, credential: { type: "access_token", id: jti, authenticatedAt, expiresAt } };
  }

  async #byApiToken(token: string): Promise<Identity> {
    const known = await this.#apiTokens.get(hashOf(this.#pepper, token).toString("hex"));
    if (known === undefined || known.revoked) throw authInvalid();
    if (known.expires_at !== null && Date.parse(known.expires_at) <= Date.now()) throw authExpired();
    const owner = await this.#holders.get(known.owner_id);
    if (owner?.active !== true) throw authInvalid();
    this.#touch("api_token", known);
    if (known.restricted?.of !== owner) known.restricted = { of: owner, identity: restrictedIdentity(owner, known) };
    return known.restricted.identity;
  }

  async #bySession(cookie: string): Promise<Identity> {
    const known = await this.#sessions.get(hashOf(this.#pepper, cookie).toString("hex"));
    if (known === undefined || known.ended) throw authInvalid("the session is invalid");
    const expiresAt = new Date(known.expires_at);
    if (expiresAt.getTime() <= Date.now() || known.lastUsedMs + idleMs <= Date.now()) {
      throw authExpired("the session has expired");
    }
    const holder = await this.#holders.get(known.identity_id);
    if (!admitsVersion(holder, known.credential_version, known.id)) throw authInvalid("the session is invalid");
    this.#touch("session", known);
    const csrfToken = csrfTokenOf(this.#csrfKey, known.id);
    const authenticatedAt = new Date(known.created_at);
    return { ...holder, credential: { type: "session", id: known.id, authenticatedAt, expiresAt, csrfToken } };
  }

  async #readApiToken(hash: string): Promise<KnownApiToken | undefined> {
    const [row] = await this.#db.query<ApiTokenRow>(
      `select id, owner_id, permissions, project_ids, allowed_ips, rate_limit_per_minute, expires_at,
         revoked_at is not null as revoked, last_used_at, created_at from api_token where hash = $1`,
      [Buffer.from(hash, "hex")],
    );
    return row && { ...row, lastUsedMs: row.last_used_at === null ? 0 : Date.parse(row.last_used_at) };
  }

  async #readSession(hash: string): Promise<KnownSession | undefined> {
    const [row] = await this.#db.query<SessionRow>(
      `select id, identity_id, credential_version, last_used_at, expires_at, ended_at is not null as ended, created_at
       from session where hash = $1`,
      [Buffer.from(hash, "hex")],
    );
    return row && { ...row, lastUsedMs: Date.parse(row.last_used_at) };
  }

  async #readStanding(jti: string): Promise<true | undefined> {
    const [revoked] = await this.#db.query("select 1 from revoked_token where id = $1", [jti]);
    return revoked === undefined ? true : undefined;
  }

  /** Notes the use, at most once a minute; the call does not wait for it. */
  #touch(table: "api_token" | "session", known: KnownApiToken | KnownSession): void {
    const now = Date.now();
    if (now - known.lastUsedMs < touchMs) return;
    known.lastUsedMs = now;
    const touch = `update ${table} set last_used_at = now()
      where id = $1 and (last_used_at is null or last_used_at < now() - interval '59 seconds')`;
    this.#db.query(touch, [known.id]).catch(() => {});
  }

  #drop(subject: Subject): void {
    const [type, key = ""] = subject.split(":");
    if (type === "identity") this.#holders.drop(key);
    else if (type === "api_token") this.#apiTokens.drop(key);
    else if (type === "session") this.#sessions.drop(key);
    else if (type === "access_token") this.#accessTokens.drop(key);
    else for (const each of [this.#holders, this.#apiTokens, this.#sessions, this.#accessTokens]) each.clear();
  }
}

/** Whether the identity is active and has not ended the credential by a change of its number. */
function admitsVersion(holder: Holder | undefined, credentialVersion: number, credentialId: string): holder is Holder {
  if (holder?.active !== true) return false;
  return holder.credentialVersion === credentialVersion || holder.survivingCredential === credentialId;
}

function restrictedIdentity(owner: Holder, token: ApiTokenRow): Identity {
  const restriction = { permissions: token.permissions, projectIds: token.project_ids };
  const admitsToken = addressCheck(token.allowed_ips);
  return {
    ...owner,
    ...restrict(owner, restriction),
    rateLimitPerMinute: token.rate_limit_per_minute ?? owner.rateLimitPerMinute,
    admits: (address) => owner.admits(address) && admitsToken(address),
    credential: {
      type: "api_token",
      id: token.id,
      authenticatedAt: new Date(token.created_at),
      expiresAt: token.expires_at === null ? undefined : new Date(token.expires_at),
      restriction,
    },
  };
}
