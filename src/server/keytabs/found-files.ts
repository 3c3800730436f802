import { type EntityManager, run } from "../db/database.ts";
import type { Keytab } from "./keytab.ts";

/**
 * From now on the files on hosts that have the same bytes are files of this keytab, and those that were ignored are not
 * any more (gaps 7.1). When the keytab is deleted, whoever reads them sees by its deleted_at that nobody manages them.
 */
export async function linkFoundFiles(
  em: EntityManager,
  keytab: Pick<Keytab, "id" | "organizationId" | "keytabHash">,
): Promise<void> {
  await run(
    em,
    // Locked in the order of reports, or the two would wait for each other.
    `update discovered_keytab d set managed_keytab_id = $1, ignored_at = null, ignored_reason = null
     from (select id from discovered_keytab where organization_id = $2 and keytab_hash = $3
           order by agent_id, file_path for no key update) same
     where d.id = same.id and d.organization_id = $2`,
    [keytab.id, keytab.organizationId, keytab.keytabHash],
  );
}
