import type { ProjectRole } from "../../gen/ts/holdfast/auth/v1/machine_identity_service_pb.ts";
import type { Api } from "../client/api.ts";
import { usage } from "./failure.ts";
import { findProjectId } from "./find.ts";

/** Roles at projects as they are typed: PROJECT=ROLE, with the name or id of the project. An empty text stands for none. */
export async function findProjectRoles(api: Api, given: readonly string[] = []) {
  const roles: { projectId: string; role: string }[] = [];
  for (const text of given.filter((each) => each !== "")) {
    const at = text.lastIndexOf("=");
    if (at < 1) throw usage(`--project-role ${text} must be PROJECT=ROLE, as in payments=viewer`);
    roles.push({ projectId: await findProjectId(api, text.slice(0, at)), role: text.slice(at + 1) });
  }
  return roles;
}

export const projectRolesText = (roles: readonly ProjectRole[]): string =>
  roles.map(({ projectId, role }) => `${projectId}=${role}`).join(", ");
