import type { EntityManager } from "../db/database.ts";

/** Lets a new authority have a revocation list, in the transaction of `em`; the first one is due at once. */
export async function beginCrl(_em: EntityManager, _organizationId: string, _caId: string): Promise<void> {
  throw new Error("not yet");
}

/** Has the lists of authorities built anew, in the transaction of `em`: something that they issued was revoked. */
export async function requestCrls(_em: EntityManager, _caIds: readonly string[]): Promise<void> {
  throw new Error("not yet");
}
