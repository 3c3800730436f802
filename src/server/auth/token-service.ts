import type { KeyObject } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import type { Config } from "../config.ts";
import { authInvalid, invalid, Refusal } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { type AccessTokens, claimsOf } from "./access-tokens.ts";
import { addressCheck } from "./allowed-addresses.ts";
import type { FailedLogins } from "./failed-logins.ts";
import { hashOf } from "./generated-credentials.ts";
import { readHolder } from "./identities.ts";

interface Client {
  readonly identity_id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly access_token_ttl_seconds: number | null;
  readonly allowed_ips: string[];
  readonly secret_id: string | null;
  readonly usable: boolean | null;
}

/** Of columns of client_secret. */
const isUsable = `revoked_at is null and (expires_at is null or expires_at > now())
  and (max_uses is null or use_count < max_uses)`;

const findClient = `select m.id as identity_id, m.organization_id, m.name, m.access_token_ttl_seconds, m.allowed_ips,
    c.id as secret_id, ${isUsable} as usable
  from machine_identity m left join client_secret c on c.machine_identity_id = m.id and c.hash = $2
  where m.client_id = $1`;

/**
 * One statement, in which the last use of a limited secret can be had once only, and none of one that was revoked
 * meanwhile. Whoever changes the identity locks it before its secrets: a login does not wait for it, or they would wait
 * for each other.
 */
const useSecret = `with used as (
    update client_secret set use_count = use_count + 1 where id = $1 and ${isUsable} returning 1),
  seen as (
    update machine_identity set last_authenticated_at = now()
    where id = (select id from machine_identity
                where id = $2 and (last_authenticated_at is null or last_authenticated_at < now() - interval '1 minute')
                for no key update skip locked))
  select count(*)::int as used from used`;

const isWrong = "client id or secret is wrong";

interface TokenServiceOptions {
  readonly config: Config;
  readonly accessTokens: AccessTokens;
  readonly failedLogins: FailedLogins;
  readonly pepper: KeyObject;
}

/** The methods of token_service.proto. */
export class TokenService implements ServiceImpl<typeof pb.TokenService> {
  readonly #config: Config;
  readonly #accessTokens: AccessTokens;
  readonly #failedLogins: FailedLogins;
  readonly #pepper: KeyObject;

  constructor({ config, accessTokens, failedLogins, pepper }: TokenServiceOptions) {
    this.#config = config;
    this.#accessTokens = accessTokens;
    this.#failedLogins = failedLogins;
    this.#pepper = pepper;
  }

  createToken(request: pb.CreateTokenRequest, context: HandlerContext) {
    const call = callOf(context);
    const basic = readBasic(call.source.header("authorization"));
    const clientId = request.clientId || basic?.clientId || "";
    const clientSecret = request.clientSecret || basic?.clientSecret || "";
    const missing = [];
    if (clientId === "") missing.push({ field: "client_id", message: "value is required" });
    if (clientSecret === "") missing.push({ field: "client_secret", message: "value is required" });
    if (missing.length > 0) throw invalid(missing);
    return this.#exchange(call, clientId, clientSecret);
  }

  loginUniversal({ clientId, clientSecret }: pb.LoginUniversalRequest, context: HandlerContext) {
    return this.#exchange(callOf(context), clientId, clientSecret);
  }

  #exchange(call: Call, clientId: string, clientSecret: string) {
    const login = () => this.#login(call, clientId, clientSecret);
    return this.#failedLogins.guard(`client:${clientId}`, isWrong, login);
  }

  /** Undefined for a secret that never was the client's. One that has ended is refused, but it is no guess. */
  async #login(call: Call, clientId: string, clientSecret: string) {
    call.action = "auth.login_failed";
    // The hash is keyed, so that looking it up tells nothing about how much of a guess was right.
    const [client] = await call.query<Client>(findClient, [clientId, hashOf(this.#pepper, clientSecret)]);
    if (client === undefined) {
      call.organizationId = await instanceOrganizationId(call);
      call.about({ type: "machine_identity", details: { client_id: "unknown" } });
      return undefined;
    }
    const { identity_id: identityId, organization_id: organizationId, name } = client;
    call.organizationId = organizationId;
    call.about({ type: "machine_identity", id: identityId, name });
    if (client.secret_id === null) return undefined;
    if (client.usable !== true) throw authInvalid(isWrong);
    if (!addressCheck(client.allowed_ips)(call.source.address)) {
      throw new Refusal("PERMISSION_DENIED", "the credential may not be used from this address");
    }
    const [use] = await call.query<{ used: number }>(useSecret, [client.secret_id, identityId]);
    if (use?.used !== 1) throw authInvalid(isWrong);
    const holder = await readHolder(call, identityId);
    if (holder?.active !== true) throw authInvalid(isWrong);
    call.identity = holder;
    call.action = "auth.login";
    const ttlSeconds = Math.min(
      client.access_token_ttl_seconds ?? this.#config.ACCESS_TOKEN_TTL_SECONDS,
      this.#config.ACCESS_TOKEN_TTL_SECONDS,
    );
    const accessToken = await this.#accessTokens.issue(claimsOf(holder, "client_secret"), ttlSeconds, call.now);
    return { accessToken, tokenType: "Bearer", expiresIn: ttlSeconds };
  }
}

/** Logins under an unknown client id are recorded where the installation's own administrators see them. */
async function instanceOrganizationId(call: Call): Promise<string | undefined> {
  const [row] = await call.query<{ id: string }>("select id from organization where instance and $1", [true]);
  return row?.id;
}

/** HTTP Basic client authentication (RFC 6749 section 2.3.1): both parts are form-encoded first. */
function readBasic(header: string | undefined): { clientId: string; clientSecret: string } | undefined {
  const [, encoded] = /^basic\s+([A-Za-z0-9+/=_-]+)$/i.exec(header?.trim() ?? "") ?? [];
  if (encoded === undefined) return undefined;
  const [clientId = "", ...rest] = Buffer.from(encoded, "base64").toString("utf8").split(":");
  const decode = (text: string) => decodeURIComponent(text.replaceAll("+", " "));
  try {
    return { clientId: decode(clientId), clientSecret: decode(rest.join(":")) };
  } catch {
    throw authInvalid("the Authorization header is malformed");
  }
}
