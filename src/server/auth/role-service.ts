import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/auth/v1/role_service_pb.ts";
import { run } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import { duplicate, invalid, notFound, violates, wrongState } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { mentions } from "../wire/update-mask.ts";
import type { Authenticator } from "./authenticator.ts";
import { checkMayGive } from "./grants.ts";
import { builtInRoles, isPermission, permissionsOf, permissions as vocabulary } from "./roles.ts";

interface Row {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly permissions: string[];
  readonly created_at: string;
  readonly updated_at: string;
}

const columns = "id, name, description, permissions, created_at, updated_at";

/** The methods of role_service.proto. */
export class RoleService implements ServiceImpl<typeof pb.RoleService> {
  readonly #authenticator: Authenticator;

  constructor(authenticator: Authenticator) {
    this.#authenticator = authenticator;
  }

  async createRole({ name, description, permissions }: pb.CreateRoleRequest, context: HandlerContext) {
    const call = callOf(context);
    checkPermissions(call, permissions);
    checkNotBuiltIn(name);
    const [row] = await run<Row>(
      call.em,
      `insert into role (organization_id, name, description, permissions) values ($1, $2, $3, $4) returning ${columns}`,
      [call.caller.organizationId, name, description, distinct(permissions)],
    ).catch(nameTaken);
    const created = answer(row as Row);
    call.about({ id: created.id, name, details: { permissions: created.permissions } });
    return created;
  }

  async listRoles(_request: pb.ListRolesRequest, context: HandlerContext) {
    const call = callOf(context);
    const rows = await call.query<Row>(`select ${columns} from role where organization_id = $1 order by name`, [
      call.caller.organizationId,
    ]);
    return { data: [...builtIn, ...rows.map(answer)] };
  }

  async getRole({ id }: pb.GetRoleRequest, context: HandlerContext) {
    return answer(await find(callOf(context), id));
  }

  async updateRole(request: pb.UpdateRoleRequest, context: HandlerContext) {
    const call = callOf(context);
    const before = await findGoverned(call, request.id);
    const mentioned = mentions(pb.UpdateRoleRequestSchema, request);
    const name = mentioned("name") ? (request.name ?? before.name) : before.name;
    const permissions = mentioned("permissions") ? distinct(request.permissions) : before.permissions;
    if (mentioned("permissions")) checkPermissions(call, request.permissions);
    checkNotBuiltIn(name);
    const { organizationId } = call.caller;
    const [row] = await run<Row>(
      call.em,
      `update role set name = $3, description = $4, permissions = $5, updated_at = now()
       where id = $1 and organization_id = $2 returning ${columns}`,
      [
        before.id,
        organizationId,
        name,
        mentioned("description") ? (request.description ?? "") : before.description,
        permissions,
      ],
    ).catch(nameTaken);
    if (name !== before.name) {
      const rename = "update role_binding set role = $3 where organization_id = $1 and role = $2";
      await run(call.em, rename, [organizationId, before.name, name]);
    }
    call.about({ details: { name, permissions } });
    if (mentioned("name") || mentioned("permissions")) await this.#authenticator.forgetAll(call);
    return answer(row as Row);
  }

  async deleteRole({ id }: pb.DeleteRoleRequest, context: HandlerContext) {
    const call = callOf(context);
    const { name } = await findGoverned(call, id);
    const { organizationId } = call.caller;
    const [held] = await run(call.em, "select 1 from role_binding where organization_id = $1 and role = $2 limit 1", [
      organizationId,
      name,
    ]);
    if (held !== undefined) throw wrongState("the role is bound to identities");
    await run(call.em, "delete from role where id = $1 and organization_id = $2", [id, organizationId]);
    return {};
  }

  listPermissions() {
    return { data: [...vocabulary] };
  }
}

/** Locked in a call that changes something: whoever binds the role, or changes it too, waits. */
async function find(call: Call, id: string): Promise<Row> {
  const lock = call.policy?.readOnly ? "" : " for update";
  const [row] = await call.query<Row>(`select ${columns} from role where id = $1 and organization_id = $2${lock}`, [
    id,
    call.caller.organizationId,
  ]);
  if (row === undefined) throw notFound("role");
  call.about({ id: row.id, name: row.name });
  return row;
}

/** A role that the caller may change: one that holds no more than the caller, who would take away what others gave. */
async function findGoverned(call: Call, id: string): Promise<Row> {
  const row = await find(call, id);
  checkMayGive(call, row.permissions);
  return row;
}

/** Refuses what is no permission, and what the caller lacks. */
function checkPermissions(call: Call, given: readonly string[]): void {
  const faults = given.flatMap((permission, index) =>
    isPermission(permission) ? [] : [{ field: `permissions[${index}]`, message: "is not a permission" }],
  );
  if (faults.length > 0) throw invalid(faults);
  checkMayGive(call, given);
}

function checkNotBuiltIn(name: string): void {
  if (permissionsOf(name) !== undefined) throw duplicate("name", "is that of a built-in role");
}

function nameTaken(error: unknown): never {
  const taken = violates(error, "role_organization_id_name_key");
  throw taken ? duplicate("name", "already exists in this organization") : error;
}

const distinct = (given: readonly string[]) => [...new Set(given)];

const builtIn = Object.entries(builtInRoles).map(([name, permissions]) => ({
  name,
  permissions: [...permissions],
  builtIn: true,
}));

const answer = (row: Row) => ({
  id: row.id,
  name: row.name,
  description: row.description,
  permissions: row.permissions,
  builtIn: false,
  createdAt: timestampOf(row.created_at),
  updatedAt: timestampOf(row.updated_at),
});
