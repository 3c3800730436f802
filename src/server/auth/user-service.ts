import type { KeyObject } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/auth/v1/user_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { duplicate, notFound, violates, wrongState } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { mentions } from "../wire/update-mask.ts";
import type { Authenticator } from "./authenticator.ts";
import { bind, mentionedGrants, rebind, removeBelongings } from "./bindings.ts";
import { hashOf, newEnrollmentToken } from "./generated-credentials.ts";
import { checkGoverns, checkGrants } from "./grants.ts";
import { checkAdministratorRemains, checkNotSelf } from "./lockout.ts";
import { answerUser, type UserRow, userColumns } from "./user-record.ts";

/** How long an enrollment token lets somebody set a password (G-9.4). */
const enrollmentHours = 72;

/** The methods of user_service.proto. */
export class UserService implements ServiceImpl<typeof pb.UserService> {
  readonly #authenticator: Authenticator;
  readonly #pepper: KeyObject;

  constructor(authenticator: Authenticator, pepper: KeyObject) {
    this.#authenticator = authenticator;
    this.#pepper = pepper;
  }

  async createUser(request: pb.CreateUserRequest, context: HandlerContext) {
    const call = callOf(context);
    const username = request.username.toLowerCase();
    await checkGrants(call, request);
    const enrollmentToken = newEnrollmentToken();
    const [created] = await run<{ id: string }>(
      call.em,
      `insert into user_account (organization_id, username, email, display_name, rate_limit_per_minute,
         enrollment_token_hash, enrollment_expires_at)
       values ($1, $2, $3, $4, $5, $6, now() + make_interval(hours => $7)) returning id`,
      [
        call.caller.organizationId,
        username,
        request.email ?? null,
        request.displayName || username,
        request.rateLimitPerMinute ?? null,
        hashOf(this.#pepper, enrollmentToken),
        enrollmentHours,
      ],
    ).catch(usernameTaken);
    const id = created?.id as string;
    call.about({ id, name: username });
    await bind(call, id, request);
    return { ...answerUser(await find(call, id)), enrollmentToken };
  }

  async listUsers({ search, status, page, perPage }: pb.ListUsersRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = new Conditions()
      .add("u.organization_id = ?", call.caller.organizationId)
      .add("u.status = ?", status)
      .contains(["u.username", "u.display_name", "u.email"], search);
    const select = { columns: userColumns, from: "user_account u", where, orderBy: "u.username" };
    const { rows, pagination } = await fetchPage<UserRow>(call, select, { page, perPage });
    return { data: rows.map(answerUser), pagination };
  }

  async getCurrentUser(_request: pb.GetCurrentUserRequest, context: HandlerContext) {
    const call = callOf(context);
    return answerUser(await find(call, call.caller.id));
  }

  async getUser({ id }: pb.GetUserRequest, context: HandlerContext) {
    return answerUser(await find(callOf(context), id));
  }

  async updateUser(request: pb.UpdateUserRequest, context: HandlerContext) {
    const call = callOf(context);
    const before = await findGoverned(call, request.id);
    const { id } = before;
    const mentioned = mentions(pb.UpdateUserRequestSchema, request);
    await rebind(call, id, mentionedGrants(mentioned, request));
    await run(
      call.em,
      `update user_account set email = $3, display_name = $4, rate_limit_per_minute = $5, updated_at = now()
       where id = $1 and organization_id = $2`,
      [
        id,
        call.caller.organizationId,
        mentioned("email") ? (request.email ?? null) : before.email,
        mentioned("display_name") ? (request.displayName ?? before.display_name) : before.display_name,
        mentioned("rate_limit_per_minute") ? (request.rateLimitPerMinute ?? null) : before.rate_limit_per_minute,
      ],
    );
    return this.#changed(call, id);
  }

  async disableUser(request: pb.DisableUserRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    checkNotSelf(call, id, "disables");
    await checkAdministratorRemains(call, id);
    // With the number every token and session ends, and so does a token that would let somebody in anew.
    await run(
      call.em,
      `update user_account set status = 'disabled', credential_version = credential_version + 1, surviving_credential = null,
         enrollment_token_hash = null, enrollment_expires_at = null, updated_at = now()
       where id = $1 and organization_id = $2 and status <> 'disabled'`,
      [id, call.caller.organizationId],
    );
    return this.#changed(call, id);
  }

  async enableUser(request: pb.EnableUserRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    await run(
      call.em,
      `update user_account set status = case when srp_verifier is null then 'pending' else 'active' end, updated_at = now()
       where id = $1 and organization_id = $2 and status = 'disabled'`,
      [id, call.caller.organizationId],
    );
    return this.#changed(call, id);
  }

  async resetUserEnrollment(request: pb.ResetUserEnrollmentRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id, status } = await findGoverned(call, request.id);
    if (status === "disabled") throw wrongState("the user is disabled");
    const enrollmentToken = newEnrollmentToken();
    await run(
      call.em,
      `update user_account set enrollment_token_hash = $3, enrollment_expires_at = now() + make_interval(hours => $4),
         updated_at = now() where id = $1 and organization_id = $2`,
      [id, call.caller.organizationId, hashOf(this.#pepper, enrollmentToken), enrollmentHours],
    );
    return { ...answerUser(await find(call, id)), enrollmentToken };
  }

  async deleteUser(request: pb.DeleteUserRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id } = await findGoverned(call, request.id);
    checkNotSelf(call, id, "deletes");
    await checkAdministratorRemains(call, id);
    await removeBelongings(call, id);
    await run(
      call.em,
      `with key as (delete from data_key where record_id = $1 and organization_id = $2)
       delete from user_account where id = $1 and organization_id = $2`,
      [id, call.caller.organizationId],
    );
    await this.#authenticator.forget(call, [id]);
    return {};
  }

  /** Every replica is told that the user is another now. */
  async #changed(call: Call, id: string) {
    await this.#authenticator.forget(call, [id]);
    return answerUser(await find(call, id));
  }
}

/** Locked first in a call that changes something: what a statement reads beside a row that it waits for may be old. */
async function find(call: Call, id: string): Promise<UserRow> {
  const own = [id, call.caller.organizationId];
  if (!call.policy?.readOnly) {
    await run(call.em, "select 1 from user_account where id = $1 and organization_id = $2 for update", own);
  }
  const [row] = await call.query<UserRow>(
    `select ${userColumns} from user_account u where u.id = $1 and u.organization_id = $2`,
    own,
  );
  if (row === undefined) throw notFound("user");
  call.about({ id: row.id, name: row.username });
  return row;
}

/** A user whom the caller may change. */
async function findGoverned(call: Call, id: string): Promise<UserRow> {
  const row = await find(call, id);
  await checkGoverns(call, id);
  return row;
}

/** Usernames are unique in the installation: whose it is, nobody is told. */
function usernameTaken(error: unknown): never {
  throw violates(error, "user_account_username_key") ? duplicate("username", "is taken") : error;
}
