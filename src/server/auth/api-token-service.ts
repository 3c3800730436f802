import type { KeyObject } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/auth/v1/api_token_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound, permissionDenied, referenceNotFound } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { checkAllowedIps } from "./allowed-addresses.ts";
import type { Authenticator } from "./authenticator.ts";
import { hashOf, newApiToken, prefixOf } from "./generated-credentials.ts";
import { expiryOf, restrictionOf } from "./new-api-token.ts";

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

/** Nothing, when the token itself has been revoked before. */
const revokeWithDescendants = `with recursive made as (
    select id from api_token where id = $1 and organization_id = $2 and revoked_at is null
    union select t.id from api_token t join made on t.parent_id = made.id)
  update api_token t set revoked_at = now(),
    revoked_reason = $3 || case when t.id = $1 then '' else ', with the token that made it' end
  from made where t.id = made.id and t.revoked_at is null returning t.hash`;

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
         rate_limit_per_minute, expires_at, parent_id)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning ${columns}`,
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
        call.caller.credential?.type === "api_token" ? call.caller.credential.id : null,
      ],
    );
    const created = answer(row as Row);
    call.about({ id: created.id, name: request.name, details: { permissions, project_ids: projectIds } });
    return { ...created, token };
  }

  async listApiTokens(request: pb.ListApiTokensRequest, context: HandlerContext) {
    const call = callOf(context);
    const ownerId = request.ownerId ?? call.caller.id;
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
    const revoked = await run<{ hash: Buffer }>(call.em, revokeWithDescendants, [
      id,
      call.caller.organizationId,
      `revoked by ${call.caller.name}`,
    ]);
    if (revoked.length === 0) throw notFound("API token");
    await this.#authenticator.end(
      call,
      "api_token",
      revoked.map(({ hash }) => hash),
    );
    return {};
  }
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
