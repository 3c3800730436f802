/**
 * SQL for the findings about a file that take others into account; the other findings are kept with the row. Each is a
 * condition on a row of table discovered_keytab, by its alias, and looks its few rows up by an index: however many files
 * are alike, one more costs no more. What is stale is on no host any more.
 */

const onAnotherAgent = (file: string, comparison: "<" | ">") => `exists (
    select from discovered_keytab other
    where other.organization_id = ${file}.organization_id and other.keytab_hash = ${file}.keytab_hash
      and other.agent_id ${comparison} ${file}.agent_id and not other.stale)`;

/** The same bytes are on another host. */
export const isSharedKey = (file: string) => `(${onAnotherAgent(file, "<")} or ${onAnotherAgent(file, ">")})`;

/**
 * A principal may be longer than an index takes, so that its hash is in there. PostgreSQL would take the hash and the
 * principal for two conditions that seldom hold together, and read all rows of the hash where the first is enough;
 * `coalesce` keeps it from guessing.
 */
const hasNewerKey = (file: string, table: string, isLive: string) => `exists (
    select from ${table} other
    where other.organization_id = ${file}.organization_id
      and hashtextextended(other.principal, 0) = hashtextextended(${file}.principal, 0)
      and coalesce(other.principal = ${file}.principal, false) and other.kvno > ${file}.kvno and ${isLive})`;

/** The principal has a key with a higher version number, in another file or in a managed keytab. */
export const isKvnoBehind = (file: string) => `(${hasNewerKey(file, "discovered_keytab", "not other.stale")}
  or ${hasNewerKey(file, "keytab", "other.deleted_at is null")})`;
