import type { KeyObject } from "node:crypto";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/auth/v1/machine_identity_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { duplicate, notFound, violates } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { mentions } from "../wire/update-mask.ts";
import { hashOf, newClientSecret, prefixOf } from "./client-credentials.ts";
import { checkAllowedIps, checkGrants, checkHolds, type Grants } from "./grants.ts";
import type { Identities } from "./identities.ts";

interface Row {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly client_id: string;
  readonly status: string;
  readonly access_token_ttl_seconds: number | null;
  readonly allowed_ips: string[];
  readonly rate_limit_per_minute: number | null;
  readonly last_authenticated_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly roles: string[];
  readonly project_roles: { readonly project_id: string; readonly role: string }[];
}

interface SecretRow {
  readonly id: string;
  readonly description: string;
  readonly prefix: string;
  readonly max_uses: number | null;
  readonly use_count: number;
  readonly revoked_at: string | null;
  readonly revoked_reason: string | null;
  readonly expires_at: string | null;
  readonly created_at: string;
  readonly expired: boolean;
}

const columns = `m.*,
  array(select b.role from role_binding b where b.identity_id = m.id and b.project_id is null order by b.id) as roles,
  coalesce((select json_agg(json_build_object('project_id', b.project_id, 'role', b.role) order by b.id)
            from role_binding b where b.identity_id = m.id and b.project_id is not null), '[]') as project_roles`;
const secretColumns = "c.*, coalesce(c.expires_at <= now(), false) as expired";

/** The methods of machine_identity_service.proto. */
export class MachineIdentityService implements ServiceImpl<typeof pb.MachineIdentityService> {
  readonly #identities: Identities;
  readonly #pepper: KeyObject;
  readonly #installationTtlSeconds: number;

  constructor(identities: Identities, pepper: KeyObject, installationTtlSeconds: number) {
    this.#identities = identities;
    this.#pepper = pepper;
    this.#installationTtlSeconds = installationTtlSeconds;
  }

  async createMachineIdentity(request: pb.CreateMachineIdentityRequest, context: HandlerContext) {
    const call = callOf(context);
    checkAllowedIps(request.allowedIps);
    await checkGrants(call, request);
    const [created] = await run<{ id: string }>(
      call.em,
      `insert into machine_identity (organization_id, name, access_token_ttl_seconds, allowed_ips, rate_limit_per_minute)
       values ($1, $2, $3, $4, $5) returning id`,
      [
        call.caller.organizationId,
        request.name,
        request.accessTokenTtlSeconds ?? null,
        request.allowedIps,
        request.rateLimitPerMinute ?? null,
      ],
    ).catch(nameTaken);
    const id = created?.id as string;
    call.about({ id, name: request.name, details: describeGrants(request) });
    await bind(call, id, request);
    return this.#answer(await find(call, id));
  }

  async listMachineIdentities({ search, page, perPage }: pb.ListMachineIdentitiesRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = new Conditions().add("m.organization_id = ?", call.caller.organizationId).contains("m.name", search);
    const select = { columns, from: "machine_identity m", where, orderBy: "m.name, m.id" };
    const { rows, pagination } = await fetchPage<Row>(call, select, { page, perPage });
    return { data: rows.map((row) => this.#answer(row)), pagination };
  }

  async getMachineIdentity({ id }: pb.GetMachineIdentityRequest, context: HandlerContext) {
    return this.#answer(await find(callOf(context), id));
  }

  async updateMachineIdentity(request: pb.UpdateMachineIdentityRequest, context: HandlerContext) {
    const call = callOf(context);
    const before = await findGoverned(call, request.id);
    const { id } = before;
    const mentioned = mentions(pb.UpdateMachineIdentityRequestSchema, request);
    if (mentioned("allowed_ips")) checkAllowedIps(request.allowedIps);
    const grants = {
      roles: mentioned("roles") ? request.roles : before.roles,
      projectRoles: mentioned("project_roles") ? request.projectRoles : grantsOf(before).projectRoles,
    };
    await checkGrants(call, grants);
    await run(
      call.em,
      `update machine_identity set name = $2, access_token_ttl_seconds = $3, allowed_ips = $4, rate_limit_per_minute = $5,
         updated_at = now() where id = $1`,
      [
        id,
        mentioned("name") ? (request.name ?? before.name) : before.name,
        mentioned("access_token_ttl_seconds")
          ? (request.accessTokenTtlSeconds ?? null)
          : before.access_token_ttl_seconds,
        mentioned("allowed_ips") ? request.allowedIps : before.allowed_ips,
        mentioned("rate_limit_per_minute") ? (request.rateLimitPerMinute ?? null) : before.rate_limit_per_minute,
      ],
    ).catch(nameTaken);
    if (mentioned("roles") || mentioned("project_roles")) {
      await run(call.em, "delete from role_binding where identity_id = $1", [id]);
      await bind(call, id, grants);
      call.about({ details: describeGrants(grants) });
    }
    call.afterCommit(() => this.#identities.forget(id));
    return this.#answer(await find(call, id));
  }

  async deleteMachineIdentity(request: pb.DeleteMachineIdentityRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    await run(call.em, "delete from role_binding where identity_id = $1", [id]);
    await run(call.em, "delete from machine_identity where id = $1", [id]);
    call.afterCommit(() => this.#identities.forget(id));
    return {};
  }

  async createClientSecret(request: pb.CreateClientSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const { machineIdentityId, description, ttlHours, maxUses } = request;
    await findGoverned(call, machineIdentityId);
    const clientSecret = newClientSecret();
    const [row] = await run<SecretRow>(
      call.em,
      `insert into client_secret as c (organization_id, machine_identity_id, description, prefix, hash, max_uses, expires_at)
       values ($1, $2, $3, $4, $5, $6, now() + make_interval(hours => $7)) returning ${secretColumns}`,
      [
        call.caller.organizationId,
        machineIdentityId,
        description,
        prefixOf(clientSecret),
        hashOf(this.#pepper, clientSecret),
        maxUses ?? null,
        ttlHours ?? null,
      ],
    );
    call.about({ details: { client_secret_id: row?.id } });
    return { ...answerSecret(row as SecretRow), clientSecret };
  }

  async listClientSecrets({ machineIdentityId, page, perPage }: pb.ListClientSecretsRequest, context: HandlerContext) {
    const call = callOf(context);
    await find(call, machineIdentityId);
    const where = new Conditions().add("c.machine_identity_id = ?", machineIdentityId);
    const select = { columns: secretColumns, from: "client_secret c", where, orderBy: "c.id desc" };
    const { rows, pagination } = await fetchPage<SecretRow>(call, select, { page, perPage });
    return { data: rows.map(answerSecret), pagination };
  }

  async revokeClientSecret({ machineIdentityId, id }: pb.RevokeClientSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    await findGoverned(call, machineIdentityId);
    call.about({ details: { client_secret_id: id } });
    const revoked = await run(
      call.em,
      `update client_secret set revoked_at = now(), revoked_reason = $3
       where id = $1 and machine_identity_id = $2 and revoked_at is null returning id`,
      [id, machineIdentityId, `revoked by ${call.caller.name}`],
    );
    if (revoked.length === 0) throw notFound("client secret");
    return {};
  }

  #answer(row: Row) {
    return {
      id: row.id,
      organizationId: row.organization_id,
      name: row.name,
      clientId: row.client_id,
      status: row.status,
      ...grantsOf(row),
      accessTokenTtlSeconds: row.access_token_ttl_seconds ?? this.#installationTtlSeconds,
      allowedIps: row.allowed_ips,
      rateLimitPerMinute: row.rate_limit_per_minute ?? undefined,
      lastAuthenticatedAt: timeOf(row.last_authenticated_at),
      createdAt: timeOf(row.created_at),
      updatedAt: timeOf(row.updated_at),
    };
  }
}

/** Locked in a call that changes something, so that writers of one identity take turns. */
async function find(call: Call, id: string): Promise<Row> {
  const lock = call.policy?.readOnly ? "" : " for update of m";
  const [row] = await call.query<Row>(
    `select ${columns} from machine_identity m where m.id = $1 and m.organization_id = $2${lock}`,
    [id, call.caller.organizationId],
  );
  if (row === undefined) throw notFound("machine identity");
  call.about({ id: row.id, name: row.name });
  return row;
}

/** An identity that the caller may change: one that holds no more than the caller, or its credentials would give more. */
async function findGoverned(call: Call, id: string): Promise<Row> {
  const row = await find(call, id);
  checkHolds(call, grantsOf(row));
  return row;
}

async function bind(call: Call, identityId: string, { roles, projectRoles }: Grants): Promise<void> {
  const bindings = [
    ...roles.map((role) => ({ role, projectId: null as string | null })),
    ...projectRoles.map(({ role, projectId }) => ({ role, projectId: projectId as string | null })),
  ];
  if (bindings.length === 0) return;
  await run(
    call.em,
    `insert into role_binding (organization_id, identity_id, role, project_id)
     select $1, $2, u.role, u.project_id from unnest($3::text[], $4::uuid[]) with ordinality as u(role, project_id, position)
     group by u.role, u.project_id order by min(u.position)`,
    [
      call.caller.organizationId,
      identityId,
      bindings.map(({ role }) => role),
      bindings.map(({ projectId }) => projectId),
    ],
  );
}

function nameTaken(error: unknown): never {
  const taken = violates(error, "machine_identity_organization_id_name_key");
  throw taken ? duplicate("name", "already exists in this organization") : error;
}

const grantsOf = (row: Row): Grants => ({
  roles: row.roles,
  projectRoles: row.project_roles.map(({ project_id: projectId, role }) => ({ projectId, role })),
});

const describeGrants = ({ roles, projectRoles }: Grants) => ({
  roles: [...roles],
  project_roles: projectRoles.map(({ projectId, role }) => ({ project_id: projectId, role })),
});

const timeOf = (text: string | null) => (text === null ? undefined : timestampFromDate(new Date(text)));

function answerSecret(row: SecretRow) {
  const usedUp = row.max_uses !== null && row.use_count >= row.max_uses;
  const status = row.revoked_at !== null ? "revoked" : row.expired ? "expired" : usedUp ? "used_up" : "active";
  return {
    id: row.id,
    description: row.description,
    prefix: row.prefix,
    maxUses: row.max_uses ?? undefined,
    useCount: row.use_count,
    status,
    revokedReason: row.revoked_reason ?? undefined,
    expiresAt: timeOf(row.expires_at),
    createdAt: timeOf(row.created_at),
  };
}
