import type { ViolationJson } from "../report-json.ts";
import type { Evidence } from "./rule.ts";

/** Something with a name that people chose. */
export type Named = Pick<ViolationJson, "name" | "resource_id" | "resource_type">;

const perPage = 5000;
const lowestId = "00000000-0000-0000-0000-000000000000";

/** Archived, deleted and expired secrets do not count, nor do deleted keytabs. */
const kinds = [
  {
    type: "secret",
    idPrefix: "",
    select: `select id, key as name from secret where organization_id = $1 and id > $2 and status = 'active'
      and (expires_at is null or expires_at > now()) order by id limit ${perPage}`,
  },
  {
    type: "keytab",
    idPrefix: "kt_",
    select: `select id, name from keytab where organization_id = $1 and id > $2 and deleted_at is null
      order by id limit ${perPage}`,
  },
] as const;

/** The names of an organization's secrets and keytabs, in pages. */
export async function* pagesOfNames({ queries, organization }: Evidence): AsyncGenerator<Named[]> {
  for (const { type, idPrefix, select } of kinds) {
    let last = lowestId;
    for (;;) {
      const rows = await queries.query<{ id: string; name: string }>(select, [organization.id, last]);
      yield rows.map(({ id, name }) => ({ resource_type: type, resource_id: idPrefix + id, name }));
      if (rows.length < perPage) break;
      last = rows.at(-1)?.id ?? last;
    }
  }
}
