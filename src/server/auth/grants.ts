import { run } from "../db/database.ts";
import { type FieldFault, invalid, permissionDenied, Refusal, referenceNotFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { permissionsOf } from "./roles.ts";

/** Roles bound to an identity: at the organization, and at single projects. */
export interface Grants {
  readonly roles: string[];
  readonly projectRoles: { readonly projectId: string; readonly role: string }[];
}

/** A role that somebody holds or is to hold: at a project, or at the organization. */
interface Held {
  readonly role: string;
  readonly projectId: string | undefined;
  readonly permissions: readonly string[];
}

/** Refuses unknown roles and projects, and roles that hold more than the caller does: nobody grants what they lack. */
export async function checkGrants(call: Call, { roles, projectRoles }: Grants): Promise<void> {
  const permissionsByRole = await readRoles(call, [...roles, ...projectRoles.map(({ role }) => role)]);
  const faults: FieldFault[] = [];
  const check = (role: string, field: string) => {
    if (!permissionsByRole.has(role)) faults.push({ field, message: "is not a role" });
  };
  roles.forEach((role, index) => check(role, `roles[${index}]`));
  projectRoles.forEach(({ role }, index) => check(role, `project_roles[${index}].role`));
  projectRoles.forEach(({ role }, index) => {
    if (role === "gateway:admin")
      faults.push({ field: `project_roles[${index}].role`, message: "is bound at the organization only" });
  });
  if (faults.length > 0) throw invalid(faults);
  await checkProjects(call, projectRoles);
  const heldAt = (projectId: string | undefined, role: string) => ({
    role,
    projectId,
    permissions: permissionsByRole.get(role) ?? [],
  });
  checkHolds(call, [
    ...roles.map((role) => heldAt(undefined, role)),
    ...projectRoles.map(({ projectId, role }) => heldAt(projectId, role)),
  ]);
}

/** Refuses unless the caller holds all that an identity holds: changing it, or having its credentials, would give more. */
export async function checkGoverns(call: Call, identityId: string): Promise<void> {
  // One statement, so that a role that is renamed meanwhile is not taken for one that holds nothing.
  const bindings = await run<{ role: string; project_id: string | null; permissions: string[] | null }>(
    call.em,
    `select b.role, b.project_id, r.permissions
     from role_binding b left join role r on r.organization_id = b.organization_id and r.name = b.role
     where b.organization_id = $1 and b.identity_id = $2`,
    [call.caller.organizationId, identityId],
  );
  const held = bindings.map(({ role, project_id: projectId, permissions }) => ({
    role,
    projectId: projectId ?? undefined,
    permissions: permissionsOf(role) ?? permissions ?? [],
  }));
  checkHolds(call, held);
}

function checkHolds(call: Call, held: readonly Held[]): void {
  for (const { role, projectId, permissions } of held) {
    if (role === "gateway:admin" && !call.caller.roles.has(role)) {
      throw new Refusal("PERMISSION_DENIED", "role gateway:admin is required");
    }
    checkMayGive(call, permissions, projectId);
  }
}

/** Refuses unless the caller holds these permissions: at the organization or, where a project is named, there. */
export function checkMayGive(call: Call, permissions: readonly string[], projectId?: string): void {
  const { caller } = call;
  for (const permission of permissions) {
    const holds = projectId === undefined ? caller.permissions.has(permission) : call.may(permission, projectId);
    const managesMachines = isMachinePermission(permission) && caller.permissions.has("identity:write");
    if (!holds && !managesMachines) throw permissionDenied(permission, projectId);
  }
}

/** What agents and gateways hold is given to nobody else; whoever manages identities may give it to them. */
const isMachinePermission = (permission: string) => permission === "agent:report" || permission === "gateway:connect";

/**
 * The permissions of each role among these names that there is. The organization's own are locked, so that none is
 * renamed or removed before it is bound.
 */
async function readRoles(call: Call, names: readonly string[]): Promise<Map<string, readonly string[]>> {
  const found = new Map<string, readonly string[]>();
  const others = new Set<string>();
  for (const name of names) {
    const permissions = permissionsOf(name);
    if (permissions === undefined) others.add(name);
    else found.set(name, permissions);
  }
  if (others.size === 0) return found;
  const own = await run<{ name: string; permissions: string[] }>(
    call.em,
    "select name, permissions from role where organization_id = $1 and name = any($2) order by name for key share",
    [call.caller.organizationId, [...others]],
  );
  for (const { name, permissions } of own) found.set(name, permissions);
  return found;
}

async function checkProjects(call: Call, projectRoles: Grants["projectRoles"]): Promise<void> {
  if (projectRoles.length === 0) return;
  const found = await run<{ id: string }>(
    call.em,
    "select id from project where organization_id = $1 and id = any($2) for key share",
    [call.caller.organizationId, projectRoles.map(({ projectId }) => projectId)],
  );
  const known = new Set(found.map(({ id }) => id));
  const missing = projectRoles.findIndex(({ projectId }) => !known.has(projectId));
  if (missing !== -1) throw referenceNotFound(`project_roles[${missing}].project_id`, "project");
}
