import { type Role, RoleSchema, RoleService } from "../../../gen/ts/holdfast/auth/v1/role_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { usage } from "../failure.ts";
import { isId, theOnly } from "../find.ts";
import { maskOf } from "../mask.ts";
import { note, printRecord, printRecords } from "../output.ts";
import { openSession } from "../session.ts";

export interface RoleOptions extends Json {
  readonly name?: string;
  readonly permission?: string[];
  readonly description?: string;
  readonly yes?: boolean;
}

export async function list(options: Json): Promise<void> {
  const { data } = await openSession()(RoleService).listRoles({});
  printRecords(
    RoleSchema,
    data,
    [
      ["NAME", ({ name }) => name],
      ["KIND", ({ builtIn }) => (builtIn ? "built in" : "own")],
      ["PERMISSIONS", ({ permissions }) => permissions.join(", ")],
      ["DESCRIPTION", ({ description }) => description],
    ],
    options,
  );
}

export async function create(name: string, options: RoleOptions): Promise<void> {
  const { permission: permissions = [], description = "" } = options;
  show(await openSession()(RoleService).createRole({ name, permissions, description }), options);
}

/** Names the fields that are given, so that an empty text and an empty list clear. */
export async function update(reference: string, options: RoleOptions): Promise<void> {
  const api = openSession();
  const { name, permission: permissions, description } = options;
  const id = await findRoleId(api, reference);
  show(
    await api(RoleService).updateRole({
      id,
      name,
      description,
      permissions: permissions ?? [],
      updateMask: maskOf({ name, permissions, description }),
    }),
    options,
  );
}

export async function remove(name: string, { yes }: RoleOptions): Promise<void> {
  const api = openSession();
  const id = await findRoleId(api, name);
  if (!yes && !(await askConsent(`Remove the role ${name}?`, "agree with --yes"))) return note("nothing was removed");
  await api(RoleService).deleteRole({ id });
  note(`removed ${name}`);
}

async function findRoleId(api: Api, name: string): Promise<string> {
  if (isId(name)) return name;
  const { data } = await api(RoleService).listRoles({});
  const named = data.filter((role) => role.name === name);
  const { id } = theOnly(`role ${name}`, named, ({ id }) => id ?? "built in", "say which by its id");
  if (id === undefined) throw usage(`${name} is a built-in role, which does not change`);
  return id;
}

function show(role: Role, options: Json): void {
  printRecord(
    RoleSchema,
    role,
    [
      ["name", ({ name }) => name],
      ["id", ({ id }) => id ?? "-"],
      ["permissions", ({ permissions }) => permissions.join(", ")],
      ["description", ({ description }) => description],
    ],
    options,
  );
}
