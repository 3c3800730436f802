import type { KeyObject } from "node:crypto";
import type { Database } from "../db/database.ts";
import { authExpired, authInvalid, authRequired } from "../errors.ts";
import type { Logger } from "../logging.ts";
import type { Call } from "../wire/call.ts";
import type { Credential, Identity, Presented } from "../wire/identity.ts";
import type { AccessTokens } from "./access-tokens.ts";
import { addressCheck } from "./allowed-addresses.ts";
import { Announcements, type Subject } from "./announcements.ts";
import { BriefMemory } from "./brief-memory.ts";
import { absoluteMs, csrfTokenOf } from "./cookies.ts";
import { hashOf } from "./generated-credentials.ts";
import { type Holder, readHolder } from "./identities.ts";
import {
  type KeptApiToken,
  type KeptSession,
  noteUse,
  readApiToken,
  readSession,
  readStanding,
} from "./kept-credentials.ts";
import { restrict } from "./restriction.ts";

const rememberMs = 5000;

/** An API token, and what was last made of its restriction, and of whom. */
interface KnownApiToken extends KeptApiToken {
  restricted?: { readonly of: Holder; readonly identity: Identity };
}

/** A session, and the token that was made of its id. */
interface KnownSession extends KeptSession {
  csrfToken?: string;
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
    this.#apiTokens = memory<KnownApiToken>((hash) => readApiToken(db, hash));
    this.#sessions = memory<KnownSession>((hash) => readSession(db, hash));
    this.#accessTokens = memory((jti) => readStanding(db, jti));
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

  /** Credentials end with this call, on every replica. API tokens and sessions are known by the hash that is kept of them. */
  end(call: Call, type: Credential["type"], keys: readonly (string | Buffer)[]): Promise<void> {
    return this.#announcements.announce(
      call,
      keys.map((key) => `${type}:${typeof key === "string" ? key : key.toString("hex")}` as const),
    );
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
    noteUse(this.#db, "api_token", known);
    if (known.restricted?.of !== owner) known.restricted = { of: owner, identity: restrictedIdentity(owner, known) };
    return known.restricted.identity;
  }

  async #bySession(cookie: string): Promise<Identity> {
    const known = await this.#sessions.get(hashOf(this.#pepper, cookie).toString("hex"));
    if (known === undefined || known.ended) throw authInvalid("the session is invalid");
    const expiresAt = new Date(known.expires_at);
    if (expiresAt.getTime() <= Date.now() || known.lastUsedMs + known.idleMs <= Date.now()) {
      throw authExpired("the session has expired");
    }
    const holder = await this.#holders.get(known.identity_id);
    if (!admitsVersion(holder, known.credential_version, known.id)) throw authInvalid("the session is invalid");
    noteUse(this.#db, "session", known);
    known.csrfToken ??= csrfTokenOf(this.#csrfKey, known.id);
    const { csrfToken } = known;
    const authenticatedAt = new Date(expiresAt.getTime() - absoluteMs);
    return { ...holder, credential: { type: "session", id: known.id, authenticatedAt, expiresAt, csrfToken } };
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

function restrictedIdentity(owner: Holder, token: KeptApiToken): Identity {
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
