import type { KeyObject } from "node:crypto";
import type { Queries } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import type { Secret } from "./secret.ts";

/** The key that seals whatever belongs to a secret. It is destroyed with the secret. */
export async function dataKeyOf(
  queries: Queries,
  seal: Seal,
  { organizationId, id }: Pick<Secret, "organizationId" | "id">,
): Promise<KeyObject> {
  const [row] = await queries.query<{ wrapped: Buffer }>(
    "select wrapped from data_key where record_id = $1 and organization_id = $2",
    [id, organizationId],
  );
  if (row === undefined) throw new Error(`secret ${id} has no key`);
  return seal.dataKey(queries, organizationId, id, row.wrapped);
}
