import type { KeyObject } from "node:crypto";
import type { Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";
import type { Secret } from "./secret.ts";

/** The key that seals whatever belongs to a secret. It is destroyed with the secret. */
export async function dataKeyOf(
  call: Call,
  seal: Seal,
  { organizationId, id }: Pick<Secret, "organizationId" | "id">,
): Promise<KeyObject> {
  const [row] = await call.query<{ wrapped: Buffer }>(
    "select wrapped from data_key where record_id = $1 and organization_id = $2",
    [id, organizationId],
  );
  if (row === undefined) throw new Error(`secret ${id} has no key`);
  return seal.dataKey(call, organizationId, id, row.wrapped);
}
