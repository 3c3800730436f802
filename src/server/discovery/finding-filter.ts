import type { Conditions } from "../db/page.ts";
import { isKvnoBehindAmongAll, isSharedKeyAmongAll } from "../keytabs/findings.ts";

/** Those findings that take other files into account. A list is made of all files of the organization. */
const amongOthers: Readonly<Record<string, string>> = {
  shared_key: `not d.stale and ${isSharedKeyAmongAll("d", "?")}`,
  kvno_behind: `not d.stale and ${isKvnoBehindAmongAll("d", "?")}`,
};

/** Adds the condition that a file in table discovered_keytab `d` has the finding. */
export function addFinding(where: Conditions, finding: string | undefined, organizationId: string): void {
  if (finding === undefined) return;
  const condition = amongOthers[finding];
  if (condition === undefined) where.add("? = any(d.findings)", finding);
  else where.add(condition, organizationId);
}
