import type { KeyObject } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/auth/v1/machine_identity_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { duplicate, notFound, violates } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { mentions } from "../wire/update-mask.ts";
import { checkAllowedIps } from "./allowed-addresses.ts";
import type { Authenticator } from "./authenticator.ts";
import { bind, type GrantRow, grantColumns, grantsOf, mentionedGrants, rebind, removeBelongings } from "./bindings.ts";
import { answerClientSecret, type ClientSecretRow, clientSecretColumns } from "./client-secret-record.ts";
import { hashOf, newClientSecret, prefixOf } from "./generated-credentials.ts";
import { checkGoverns, checkGrants } from "./grants.ts";
import { checkAdministratorRemains, checkNotSelf } from "./lockout.ts";

interface Row extends GrantRow {
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
}

const columns = `m.*, ${grantColumns("m")}`;

/** The methods of machine_identity_service.proto. */
export class MachineIdentityService implements ServiceImpl<typeof pb.MachineIdentityService> {
  readonly #authenticator: Authenticator;
  readonly #pepper: KeyObject;
  readonly #installationTtlSeconds: number;

  constructor(authenticator: Authenticator, pepper: KeyObject, installationTtlSeconds: number) {
    this.#authenticator = authenticator;
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
    call.about({ id, name: request.name });
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
    await rebind(call, id, mentionedGrants(mentioned, request));
    await run(
      call.em,
      `update machine_identity set name = $3, access_token_ttl_seconds = $4, allowed_ips = $5, rate_limit_per_minute = $6,
         updated_at = now() where id = $1 and organization_id = $2`,
      [
        id,
        call.caller.organizationId,
        mentioned("name") ? (request.name ?? before.name) : before.name,
        mentioned("access_token_ttl_seconds")
          ? (request.accessTokenTtlSeconds ?? null)
          : before.access_token_ttl_seconds,
        mentioned("allowed_ips") ? request.allowedIps : before.allowed_ips,
        mentioned("rate_limit_per_minute") ? (request.rateLimitPerMinute ?? null) : before.rate_limit_per_minute,
      ],
    ).catch(nameTaken);
    return this.#changed(call, id);
  }

  async disableMachineIdentity(request: pb.DisableMachineIdentityRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    checkNotSelf(call, id, "disables");
    await checkAdministratorRemains(call, id);
    await run(
      call.em,
      `update machine_identity set status = 'disabled', credential_version = credential_version + 1, updated_at = now()
       where id = $1 and organization_id = $2 and status = 'active'`,
      [id, call.caller.organizationId],
    );
    return this.#changed(call, id);
  }

  async enableMachineIdentity(request: pb.EnableMachineIdentityRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    await run(
      call.em,
      `update machine_identity set status = 'active', updated_at = now()
       where id = $1 and organization_id = $2 and status = 'disabled'`,
      [id, call.caller.organizationId],
    );
    return this.#changed(call, id);
  }

  async deleteMachineIdentity(request: pb.DeleteMachineIdentityRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    checkNotSelf(call, id, "deletes");
    await checkAdministratorRemains(call, id);
    await removeMachineIdentity(call, this.#authenticator, id);
    return {};
  }

  async createClientSecret(request: pb.CreateClientSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const { machineIdentityId, description, ttlHours, maxUses } = request;
    await findGoverned(call, machineIdentityId);
    const clientSecret = newClientSecret();
    const [row] = await run<ClientSecretRow>(
      call.em,
      `insert into client_secret as c (organization_id, machine_identity_id, description, prefix, hash, max_uses, expires_at)
       values ($1, $2, $3, $4, $5, $6, now() + make_interval(hours => $7)) returning ${clientSecretColumns}`,
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
    return { ...answerClientSecret(row as ClientSecretRow), clientSecret };
  }

  async listClientSecrets({ machineIdentityId, page, perPage }: pb.ListClientSecretsRequest, context: HandlerContext) {
    const call = callOf(context);
    await find(call, machineIdentityId);
    const where = new Conditions()
      .add("c.organization_id = ?", call.caller.organizationId)
      .add("c.machine_identity_id = ?", machineIdentityId);
    const select = { columns: clientSecretColumns, from: "client_secret c", where, orderBy: "c.id desc" };
    const { rows, pagination } = await fetchPage<ClientSecretRow>(call, select, { page, perPage });
    return { data: rows.map(answerClientSecret), pagination };
  }

  async revokeClientSecret({ machineIdentityId, id }: pb.RevokeClientSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    await findGoverned(call, machineIdentityId);
    call.about({ details: { client_secret_id: id } });
    const revoked = await run(
      call.em,
      `update client_secret set revoked_at = now(), revoked_reason = $4
       where id = $1 and machine_identity_id = $2 and organization_id = $3 and revoked_at is null returning id`,
      [id, machineIdentityId, call.caller.organizationId, `revoked by ${call.caller.name}`],
    );
    if (revoked.length === 0) throw notFound("client secret");
    return {};
  }

  /** Every replica is told that the identity is another now. */
  async #changed(call: Call, id: string) {
    await this.#authenticator.forget(call, [id]);
    return this.#answer(await find(call, id));
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
      lastAuthenticatedAt: timestampOf(row.last_authenticated_at),
      createdAt: timestampOf(row.created_at),
      updatedAt: timestampOf(row.updated_at),
    };
  }
}

/** Removes an identity of the caller's organization with all that is its own; its tokens end at once. */
export async function removeMachineIdentity(call: Call, authenticator: Authenticator, id: string): Promise<void> {
  await removeBelongings(call, id);
  await run(call.em, "delete from machine_identity where id = $1 and organization_id = $2", [
    id,
    call.caller.organizationId,
  ]);
  await authenticator.forget(call, [id]);
}

/** Locked first in a call that changes something: what a statement reads beside a row that it waits for may be old. */
async function find(call: Call, id: string): Promise<Row> {
  const own = [id, call.caller.organizationId];
  if (!call.policy?.readOnly) {
    await run(call.em, "select 1 from machine_identity where id = $1 and organization_id = $2 for update", own);
  }
  const [row] = await call.query<Row>(
    `select ${columns} from machine_identity m where m.id = $1 and m.organization_id = $2`,
    own,
  );
  if (row === undefined) throw notFound("machine identity");
  call.about({ id: row.id, name: row.name });
  return row;
}

/** An identity that the caller may change. */
async function findGoverned(call: Call, id: string): Promise<Row> {
  const row = await find(call, id);
  await checkGoverns(call, id);
  return row;
}

function nameTaken(error: unknown): never {
  const taken = violates(error, "machine_identity_organization_id_name_key");
  throw taken ? duplicate("name", "already exists in this organization") : error;
}
