import { LockMode } from "@mikro-orm/core";
import type { EntityManager } from "../db/database.ts";
import { notFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { Secret } from "./secret.ts";

/** Locked until the transaction ends, so that writers of one secret take turns; in any state, and null when it is gone. */
export const lockSecret = (em: EntityManager, id: string): Promise<Secret | null> =>
  em.findOne(Secret, { id }, { lockMode: LockMode.PESSIMISTIC_WRITE });

/** Locked in a call that changes something. */
export async function findInAnyState(call: Call, id: string): Promise<Secret> {
  const secret = await (call.policy?.readOnly ? call.em.findOne(Secret, { id }) : lockSecret(call.em, id));
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
