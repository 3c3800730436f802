import { type KeyObject, randomBytes } from "node:crypto";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/auth/v1/api_token_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { invalid, invalidField, notFound, permissionDenied, Refusal, referenceNotFound } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import type { Restriction } from "../wire/identity.ts";
import { mentions } from "../wire/update-mask.ts";
import type { Authenticator } from "./authenticator.ts";
import { hashOf, prefixOf } from "./client-credentials.ts";
import { checkAllowedIps } from "./grants.ts";
import { isGrantable } from "./restriction.ts";

const dayMs = 24 * 60 * 60_000;
const usualDays = 90;
const mostDays = 365;
const administer = "api_token:admin";

interface Row {
  readonly id: string;
  readonly owner_id: string;
  readonly name: string;
  readonly prefix: string;
  readonly permissions: string[];
  readonly project_ids: string[];
  readonly allowed_ips: string[];
  readonly rate_limit_per_minute: number | null;
  readonly status: string;
  readonly revoked_reason: string | null;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
  readonly created_at: string;
}

const status = `case when t.revoked_at is not null then 'revoked' when t.expires_at <= now() then 'expired' else 'active' end`;
const columns = `t.id, t.owner_id, t.name, t.prefix, t.permissions, t.project_ids, t.allowed_ips, t.rate_limit_per_minute,
  ${status} as status, t.revoked_reason, t.expires_at, t.last_used_at, t.created_at`;

/** The methods of api_token_service.proto. */
export class ApiTokenService implements ServiceImpl<typeof pb.ApiTokenService> {
  readonly #authenticator: Authenticator;
  readonly #pepper: KeyObject;

  constructor(authenticator: Authenticator, pepper: KeyObject) {
    this.#authenticator = authenticator;
    this.#pepper = pepper;
  }

  async createApiToken(request: pb.CreateApiTokenRequest, context: HandlerContext) {
    const call = callOf(context);
    const { permissions, projectIds } = await restrictionOf(call, request);
    const expiresAt = expiryOf(call, request);
    checkAllowedIps(request.allowedIps);
    if (request.rateLimitPerMinute !== undefined && !call.caller.permissions.has(administer)) {
      throw permissionDenied(administer);
    }
    const token = newApiToken();
    const [row] = await run<Row>(
      call.em,
      `insert into api_token as t (organization_id, owner_id, name, prefix, hash, permissions, project_ids, allowed_ips,
         rate_limit_per_minute, expires_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning ${columns}`,
      [
        call.caller.organizationId,
        call.caller.id,
        request.name,
        prefixOf(token),
        hashOf(this.#pepper, token),
        permissions,
        projectIds,
        request.allowedIps,
        request.rateLimitPerMinute ?? null,
        expiresAt ?? null,
      ],
    );
    const created = answer(row as Row);
    call.about({ id: created.id, name: request.name, details: { permissions, project_ids: projectIds } });
    return { ...created, token };
  }

  async listApiTokens(request: pb.ListApiTokensRequest, context: HandlerContext) {
    const call = callOf(context);
    const ownerId = request.ownerId?.toLowerCase() ?? call.caller.id;
    await checkOwner(call, ownerId);
    const where = new Conditions()
      .add("t.organization_id = ?", call.caller.organizationId)
      .add("t.owner_id = ?", ownerId)
      .add(`${status} = ?`, request.status);
    const select = { columns, from: "api_token t", where, orderBy: "t.id desc" };
    const { rows, pagination } = await fetchPage<Row>(call, select, request);
    return { data: rows.map(answer), pagination };
  }

  async getApiToken({ id }: pb.GetApiTokenRequest, context: HandlerContext) {
    return answer(await find(callOf(context), id));
  }

  async revokeApiToken({ id }: pb.RevokeApiTokenRequest, context: HandlerContext) {
    const call = callOf(context);
    await find(call, id);
    const [revoked] = await run<{ hash: Buffer }>(
      call.em,
      `update api_token set revoked_at = now(), revoked_reason = $3
       where id = $1 and organization_id = $2 and revoked_at is null returning hash`,
      [id, call.caller.organizationId, `revoked by ${call.caller.name}`],
    );
    if (revoked === undefined) throw notFound("API token");
    await this.#authenticator.end(call, "api_token", revoked.hash);
    return {};
  }
}

/** A new token: 256 random bits behind a prefix that secret scanners can find. */
export const newApiToken = () => `hf_${randomBytes(32).toString("base64url")}`;

/** What the token is restricted to: at most what the caller holds, and all that the caller's own token is restricted to. */
async function restrictionOf(call: Call, request: pb.CreateApiTokenRequest): Promise<Restriction> {
  const own = call.caller.credential?.restriction ?? { permissions: [], projectIds: [] };
  const asked = request.projectIds.map((projectId) => projectId.toLowerCase());
  const projectIds = asked.length === 0 ? own.projectIds : [...new Set(asked)];
  const permissions = request.permissions.length === 0 ? own.permissions : [...new Set(request.permissions)];
  const faults = request.permissions.flatMap((permission, index) =>
    isGrantable(permission) ? [] : [{ field: `permissions[${index}]`, message: "is not a permission" }],
  );
  if (faults.length > 0) throw invalid(faults);
  await checkProjects(call, asked);
  if (own.projectIds.length > 0 && projectIds.some((projectId) => !own.projectIds.includes(projectId))) {
    throw new Refusal("PERMISSION_DENIED", "the API token that makes this one is restricted to other projects");
  }
  for (const permission of permissions) checkHeld(call, permission, projectIds);
  return { permissions, projectIds };
}

function checkHeld(call: Call, permission: string, projectIds: readonly string[]): void {
  const { roles, permissions, projectPermissions } = call.caller;
  if (roles.has(permission) || permissions.has(permission)) return;
  const places = projectIds.length === 0 ? [...projectPermissions.keys()] : projectIds;
  if (!places.some((projectId) => call.may(permission, projectId))) throw permissionDenied(permission);
}

async function checkProjects(call: Call, projectIds: readonly string[]): Promise<void> {
  if (projectIds.length === 0) return;
  const found = await run<{ id: string }>(
    call.em,
    "select id from project where organization_id = $1 and id = any($2)",
    [call.caller.organizationId, projectIds],
  );
  const known = new Set(found.map(({ id }) => id));
  const missing = projectIds.findIndex((projectId) => !known.has(projectId));
  if (missing !== -1) throw referenceNotFound(`project_ids[${missing}]`, "project");
}

/** When the token ends by itself; undefined means never, which takes an explicit null. */
function expiryOf(call: Call, request: pb.CreateApiTokenRequest): Date | undefined {
  const mentioned = mentions(pb.CreateApiTokenRequestSchema, request);
  const { expiresInDays, expiresAt: at } = request;
  if (expiresInDays !== undefined && at !== undefined) {
    throw invalidField("expires_at", "must not be given together with expires_in_days");
  }
  const after = (days: number) => new Date(call.now.getTime() + days * dayMs);
  const field = at === undefined ? "expires_in_days" : "expires_at";
  const isNever =
    expiresInDays === undefined && at === undefined && (mentioned("expires_in_days") || mentioned("expires_at"));
  const latest = call.caller.credential?.type === "api_token" ? call.caller.credential.expiresAt : undefined;
  const isGiven = isNever || expiresInDays !== undefined || at !== undefined;
  const asked = at === undefined ? after(expiresInDays ?? usualDays) : timestampDate(at);
  if (at !== undefined && (asked <= call.now || asked > after(mostDays))) {
    throw invalidField(field, `must be in the future, and at most ${mostDays} days away`);
  }
  if (latest === undefined) return isNever ? undefined : asked;
  if (isGiven && (isNever || asked > latest))
    throw invalidField(field, "must not be after the end of the API token that makes this one");
  return asked < latest ? asked : latest;
}

/** Other identities' tokens take a permission. */
async function checkOwner(call: Call, ownerId: string): Promise<void> {
  const { id, permissions, organizationId } = call.caller;
  if (ownerId === id) return;
  if (!permissions.has(administer)) throw permissionDenied(administer);
  const [owner] = await call.query(
    `select 1 from user_account where id = $1 and organization_id = $2
     union all select 1 from machine_identity where id = $1 and organization_id = $2`,
    [ownerId, organizationId],
  );
  if (owner === undefined) throw referenceNotFound("owner_id", "identity");
}

async function find(call: Call, id: string): Promise<Row> {
  const { id: callerId, organizationId, permissions } = call.caller;
  const [row] = await call.query<Row>(`select ${columns} from api_token t where t.id = $1 and t.organization_id = $2`, [
    id,
    organizationId,
  ]);
  if (row === undefined) throw notFound("API token");
  call.about({ id: row.id, name: row.name });
  if (row.owner_id !== callerId && !permissions.has(administer)) throw permissionDenied(administer);
  return row;
}

const answer = (row: Row) => ({
  id: row.id,
  ownerId: row.owner_id,
  name: row.name,
  prefix: row.prefix,
  permissions: row.permissions,
  projectIds: row.project_ids,
  allowedIps: row.allowed_ips,
  rateLimitPerMinute: row.rate_limit_per_minute ?? undefined,
  status: row.status,
  revokedReason: row.revoked_reason ?? undefined,
  expiresAt: timestampOf(row.expires_at),
  lastUsedAt: timestampOf(row.last_used_at),
  createdAt: timestampOf(row.created_at),
});
