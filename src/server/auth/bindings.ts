import { run } from "../db/database.ts";
import type { Call } from "../wire/call.ts";
import { checkGrants, type Grants } from "./grants.ts";
import { checkAdministratorRemains } from "./lockout.ts";

/** The columns of `grantColumns`. */
export interface GrantRow {
  readonly roles: string[];
  readonly project_roles: { readonly project_id: string; readonly role: string }[];
}

/** Columns with what is bound to the identity of a table's row, in the order in which it was given. */
export const grantColumns = (table: string) => `
  array(select b.role from role_binding b where b.identity_id = ${table}.id and b.project_id is null order by b.id) as roles,
  coalesce((select json_agg(json_build_object('project_id', b.project_id, 'role', b.role) order by b.id)
            from role_binding b where b.identity_id = ${table}.id and b.project_id is not null), '[]') as project_roles`;

export const grantsOf = (row: GrantRow): Grants => ({
  roles: row.roles,
  projectRoles: row.project_roles.map(({ project_id: projectId, role }) => ({ projectId, role })),
});

/** What an update mentions of an identity's roles; what it does not mention is left out. */
export const mentionedGrants = (mentioned: (path: string) => boolean, request: Grants): Partial<Grants> => ({
  ...(mentioned("roles") ? { roles: request.roles } : {}),
  ...(mentioned("project_roles") ? { projectRoles: request.projectRoles } : {}),
});

/** Binds roles, each once, that `checkGrants` has allowed. */
export async function bind(call: Call, identityId: string, grants: Partial<Grants>): Promise<void> {
  call.about({ details: describe(grants) });
  const { roles = [], projectRoles = [] } = grants;
  const bindings = [
    ...roles.map((role) => ({ role, projectId: null })),
    ...projectRoles.map(({ role, projectId }) => ({ role, projectId })),
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

/** Replaces the roles at the organization, those at projects, or both: what is given, when the caller may give it. */
export async function rebind(call: Call, identityId: string, grants: Partial<Grants>): Promise<void> {
  const { roles, projectRoles } = grants;
  if (roles === undefined && projectRoles === undefined) return;
  await checkGrants(call, { roles: roles ?? [], projectRoles: projectRoles ?? [] });
  if (roles !== undefined && !roles.includes("admin")) await checkAdministratorRemains(call, identityId);
  await run(
    call.em,
    `delete from role_binding where organization_id = $1 and identity_id = $2
       and case when project_id is null then $3::boolean else $4::boolean end`,
    [call.caller.organizationId, identityId, roles !== undefined, projectRoles !== undefined],
  );
  await bind(call, identityId, grants);
}

/** Removes the roles, API tokens and sessions of an identity that is being removed. */
export async function removeBelongings(call: Call, identityId: string): Promise<void> {
  await run(
    call.em,
    `with bindings as (delete from role_binding where organization_id = $1 and identity_id = $2),
       tokens as (delete from api_token where organization_id = $1 and owner_id = $2)
     delete from session where organization_id = $1 and identity_id = $2`,
    [call.caller.organizationId, identityId],
  );
}

/** What the audit log keeps of grants. */
const describe = ({ roles, projectRoles }: Partial<Grants>) => ({
  ...(roles && { roles: [...roles] }),
  ...(projectRoles && { project_roles: projectRoles.map(({ projectId, role }) => ({ project_id: projectId, role })) }),
});
