import { randomBytes, randomUUID } from "node:crypto";
import type { Queries } from "../../src/server/db/database.ts";
import type { KeyWrapping } from "../../src/server/seal/key-wrapping.ts";
import { organizationKeys } from "../../src/server/seal/wrapped-keys.ts";

/** Writes the keys of `count` organizations that have nothing else, wrapped by `wrapping`; answers their ids. */
export async function addOrganizationKeys(database: Queries, wrapping: KeyWrapping, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  const wrapped = await Promise.all(ids.map((id) => wrapping.wrap(organizationKeys.place(id), randomBytes(32))));
  await database.query(
    "insert into organization_key (organization_id, wrapped) select * from unnest($1::uuid[], $2::bytea[])",
    [ids, wrapped],
  );
  return ids;
}
