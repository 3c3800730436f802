import { LockMode } from "@mikro-orm/core";
import { notFound } from "../errors.ts";
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
