import type { Conditions } from "../db/page.ts";

const onSeveralAgents = `not d.stale and d.keytab_hash in (
    select keytab_hash from (
      select distinct keytab_hash, agent_id from discovered_keytab where organization_id = ? and not stale) held
    group by keytab_hash having count(*) > 1)`;

const behindAnother = `not d.stale and exists (
    select from (
      select principal, max(kvno) as kvno from (
        select principal, kvno from discovered_keytab where organization_id = ? and not stale
        union all select principal, kvno from keytab where organization_id = ? and deleted_at is null) of_all
      group by principal) newest
    where newest.principal = d.principal and newest.kvno > d.kvno)`;

/**
 * Those findings that take other files into account, as conditions that look through all files of the organization once,
 * and not through others for each: they find the files of which the conditions in keytabs/findings.ts are true.
 */
const amongOthers: Readonly<Record<string, string>> = { shared_key: onSeveralAgents, kvno_behind: behindAnother };

/** Adds the condition that a file in table discovered_keytab `d` has the finding. */
export function addFinding(where: Conditions, finding: string | undefined, organizationId: string): void {
  if (finding === undefined) return;
  const condition = amongOthers[finding];
  if (condition === undefined) where.add("? = any(d.findings)", finding);
  else where.add(condition, organizationId);
}
