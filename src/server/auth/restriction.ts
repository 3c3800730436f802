import type { Identity, Restriction } from "../wire/identity.ts";
import { isPermission } from "./roles.ts";

/** The role that is asked for by its name, and so may stand in a token's list of permissions. */
const gatewayAdmin = "gateway:admin";

/** Whether a token may be restricted to it. */
export const isGrantable = (permission: string) => permission === gatewayAdmin || isPermission(permission);

/** Whether an identity holds it at the organization. A role counts by its permissions, whatever its name is. */
export const holdsAtOrganization = ({ roles, permissions }: Identity, permission: string): boolean =>
  permission === gatewayAdmin ? roles.has(permission) : permissions.has(permission);

/** What is left of an identity's roles and permissions under a token's restriction. */
export function restrict(
  { roles, permissions, projectPermissions }: Identity,
  { permissions: allowed, projectIds }: Restriction,
): Pick<Identity, "roles" | "permissions" | "projectPermissions"> {
  const among = (held: Iterable<string>) =>
    new Set([...held].filter((each) => allowed.length === 0 || allowed.includes(each)));
  if (projectIds.length === 0) {
    return {
      roles: allowed.length === 0 ? roles : among(roles),
      permissions: among(permissions),
      projectPermissions: new Map([...projectPermissions].map(([projectId, held]) => [projectId, among(held)])),
    };
  }
  const inProject = (projectId: string) => among([...permissions, ...(projectPermissions.get(projectId) ?? [])]);
  return {
    roles: new Set(),
    permissions: new Set(),
    projectPermissions: new Map(projectIds.map((projectId) => [projectId, inProject(projectId)])),
  };
}
