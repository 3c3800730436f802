import { BlockList, isIP } from "node:net";
import { addNetwork } from "../config.ts";
import { run } from "../db/database.ts";
import { type FieldFault, invalid, permissionDenied, Refusal, referenceNotFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { permissionsOf } from "./roles.ts";

/** Roles bound to an identity: at the organization, and at single projects. */
export interface Grants {
  readonly roles: string[];
  readonly projectRoles: { readonly projectId: string; readonly role: string }[];
}

/** Refuses unknown roles and projects, and roles that hold more than the caller does: nobody grants what they lack. */
export async function checkGrants(call: Call, { roles, projectRoles }: Grants): Promise<void> {
  const faults: FieldFault[] = [];
  const check = (role: string, field: string) => {
    if (permissionsOf(role) === undefined) faults.push({ field, message: "is not a role" });
  };
  roles.forEach((role, index) => check(role, `roles[${index}]`));
  projectRoles.forEach(({ role }, index) => check(role, `project_roles[${index}].role`));
  projectRoles.forEach(({ role }, index) => {
    if (role === "gateway:admin")
      faults.push({ field: `project_roles[${index}].role`, message: "is bound at the organization only" });
  });
  if (faults.length > 0) throw invalid(faults);
  await checkProjects(call, projectRoles);
  checkHolds(call, { roles, projectRoles });
}

/** Refuses unless the caller holds all that these grants give. */
export function checkHolds(call: Call, { roles, projectRoles }: Grants): void {
  const { caller } = call;
  for (const role of roles) {
    if (role === "gateway:admin" && !caller.roles.has(role)) {
      throw new Refusal("PERMISSION_DENIED", "role gateway:admin is required");
    }
    for (const permission of permissionsOf(role) ?? []) {
      if (!caller.permissions.has(permission) && !isMachinePermission(permission)) throw permissionDenied(permission);
    }
  }
  for (const { projectId, role } of projectRoles) {
    for (const permission of permissionsOf(role) ?? []) {
      if (!call.may(permission, projectId.toLowerCase()) && !isMachinePermission(permission))
        throw permissionDenied(permission, projectId);
    }
  }
}

/** What agents and gateways hold is given to nobody else; whoever manages identities may give it to them. */
const isMachinePermission = (permission: string) => permission === "agent:report" || permission === "gateway:connect";

async function checkProjects(call: Call, projectRoles: Grants["projectRoles"]): Promise<void> {
  if (projectRoles.length === 0) return;
  const found = await run<{ id: string }>(
    call.em,
    "select id from project where organization_id = $1 and id = any($2) for key share",
    [call.caller.organizationId, projectRoles.map(({ projectId }) => projectId)],
  );
  const known = new Set(found.map(({ id }) => id));
  const missing = projectRoles.findIndex(({ projectId }) => !known.has(projectId.toLowerCase()));
  if (missing !== -1) throw referenceNotFound(`project_roles[${missing}].project_id`, "project");
}

/** Refuses what is neither an address nor a network. */
export function checkAllowedIps(allowedIps: readonly string[]): void {
  const faults = allowedIps.flatMap((each, index) =>
    isIP(each) !== 0 || addNetwork(new BlockList(), each)
      ? []
      : [{ field: `allowed_ips[${index}]`, message: "must be an address or a network (CIDR)" }],
  );
  if (faults.length > 0) throw invalid(faults);
}
