import { referenceNotFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";

/**
 * Refuses unless the caller holds the declared permission in that project; without one, at the organization. Looks the
 * project up only for a caller who may not: whether it is not there or not theirs are different answers.
 */
export async function authorizeInProject(call: Call, id: string | null): Promise<void> {
  if (id !== null && !call.mayDeclared(id)) await findProject(call, id, "project_id");
  call.authorizeIn(id);
}

/** Held in a call that changes something: a project does not go, nor change its key_scope, under what is made in it. */
export async function findProject(call: Call, id: string, field: string): Promise<{ id: string; keyScope: string }> {
  const hold = call.policy?.readOnly ? "" : " for key share";
  const [project] = await call.query<{ id: string; keyScope: string }>(
    `select id, key_scope as "keyScope" from project where id = $1 and organization_id = $2${hold}`,
    [id, call.caller.organizationId],
  );
  if (project === undefined) throw referenceNotFound(field, "project");
  call.about({ projectId: project.id });
  return project;
}
