import type { EntityManager } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import type { OpenAuthority } from "./authority-key.ts";

/** Issues a new delegated responder certificate of an authority, in the transaction of `em`. */
export async function issueSigner(
  _em: EntityManager,
  _seal: Seal,
  _authority: OpenAuthority,
  _now: Date,
): Promise<void> {
  throw new Error("not yet");
}
