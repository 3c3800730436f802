import { LockMode } from "@mikro-orm/core";
import { notFound, referenceNotFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { Secret } from "./secret.ts";

/** Locked in a call that changes something, so that writers of one secret take turns. */
export async function findInAnyState(call: Call, id: string): Promise<Secret> {
  const options = call.policy?.readOnly ? {} : { lockMode: LockMode.PESSIMISTIC_WRITE };
  const secret = await call.em.findOne(Secret, { id }, options);
  if (secret === null) throw notFound("secret");
  call.about({ id: secret.id, name: secret.key, projectId: secret.projectId });
  call.authorizeIn(secret.projectId);
  return secret;
}

/** A secret in any other state is not reachable through normal queries. */
export async function findActive(call: Call, id: string): Promise<Secret> {
  const secret = await findInAnyState(call, id);
  if (secret.lifecycle !== "active") throw notFound("secret");
  return secret;
}

/** Looks the project up only for a caller who may not: whether it is not there or not theirs are different answers. */
export async function authorizeInProject(call: Call, id: string): Promise<void> {
  if (!call.mayDeclared(id)) await findProject(call, id, "project_id");
  call.authorizeIn(id);
}

/** Held in a call that changes something: a project does not go, nor change its key_scope, under a secret in the making. */
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
