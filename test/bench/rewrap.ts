import { randomBytes } from "node:crypto";
import { rewrapIn } from "../../src/server/admin/rewrap.ts";
import type { Queries } from "../../src/server/db/database.ts";
import { type KeyWrapping, LocalKey } from "../../src/server/seal/key-wrapping.ts";
import { MasterKey } from "../../src/server/seal/master-key.ts";
import { asKey } from "../../src/server/seal/seal.ts";
import { organizationKeys as organizationKeyTable } from "../../src/server/seal/wrapped-keys.ts";
import { addOrganizationKeys } from "../harness/organization-keys.ts";
import { withCore } from "./core.ts";
import type { Effort } from "./options.ts";
import { inTurns } from "./rates.ts";
import type { Stage } from "./stage.ts";
import { atLeast, type Line } from "./table.ts";

interface Row {
  readonly id: string;
  readonly wrapped: Buffer;
}

/** As many keys as rewrapping takes at a time. */
const batch = 32;

/**
 * How fast the keys of organizations are wrapped by another master key, beside reading, opening, wrapping and writing
 * each. What is more: it tries first whether a key has been wrapped anew, then whether it opens, and at last all of them.
 */
export function measureRewrapping(stage: Stage, { rounds, organizationKeys }: Effort): Promise<Line[]> {
  return withCore(stage, "rewrapping", async ({ db, masterKey }) => {
    await addOrganizationKeys(db, masterKey.current, organizationKeys);
    let { current } = masterKey;
    const rewrap = async () => {
      const next = new LocalKey("SERVICE_MASTER_KEY", asKey(randomBytes(32)));
      const options = { progress: () => {}, signal: new AbortController().signal };
      const summary = await rewrapIn({ database: db, masterKey: new MasterKey(next, current) }, options);
      if (summary.unopened > 0) throw new Error(`${summary.unopened} keys were not wrapped anew`);
      current = next;
      return summary.rewrapped;
    };
    const rates = await inTurns(rewrap, () => openAndWrap(db, current), rounds);
    return [{ scenario: "rewrap keys", against: "open and wrap", target: atLeast(0.25), ...rates }];
  });
}

async function openAndWrap(queries: Queries, key: KeyWrapping): Promise<number> {
  let count = 0;
  let last = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const rows = await queries.query<Row>(
      `select organization_id as id, wrapped from organization_key where organization_id > $1
       order by organization_id limit ${batch}`,
      [last],
    );
    const end = rows.at(-1);
    if (end === undefined) return count;
    const wrapped = await Promise.all(rows.map((row) => wrapAgain(key, row)));
    await queries.query(
      `update organization_key set wrapped = change.wrapped from unnest($1::uuid[], $2::bytea[]) as change (id, wrapped)
       where organization_id = change.id`,
      [rows.map(({ id }) => id), wrapped],
    );
    count += rows.length;
    last = end.id;
  }
}

async function wrapAgain(key: KeyWrapping, { id, wrapped }: Row): Promise<Buffer> {
  const place = organizationKeyTable.place(id);
  return key.wrap(place, await key.unwrap(place, wrapped));
}
