/**
 * SQL for the findings about a file that take others into account; the other findings are kept with the row. Each is a
 * condition on a row of table discovered_keytab that is not stale, by its alias, and is here twice: for a few rows,
 * whose like it looks up by an index, and for all of an organization, which it reads once. What is stale is on no host
 * any more.
 */

const onAnotherAgent = (file: string, comparison: "<" | ">") => `exists (
    select from discovered_keytab other
    where other.organization_id = ${file}.organization_id and other.keytab_hash = ${file}.keytab_hash
      and other.agent_id ${comparison} ${file}.agent_id and not other.stale)`;

/** The same bytes are on another host. However many copies a host has, the next agent's is found at once. */
export const isSharedKey = (file: string) => `(${onAnotherAgent(file, "<")} or ${onAnotherAgent(file, ">")})`;

/** The same for all files of the organization in a parameter, as in "$1". */
export const isSharedKeyAmongAll = (file: string, organization: string) => `${file}.keytab_hash in (
    select keytab_hash from (
      select distinct keytab_hash, agent_id from discovered_keytab
      where organization_id = ${organization} and not stale) held
    group by keytab_hash having count(*) > 1)`;

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

/** The same for all files of the organization in a parameter, as in "$1". */
export const isKvnoBehindAmongAll = (file: string, organization: string) => `exists (
    select from (
      select principal, max(kvno) as kvno from (
        select principal, kvno from discovered_keytab where organization_id = ${organization} and not stale
        union all select principal, kvno from keytab where organization_id = ${organization} and deleted_at is null) key
      group by principal) newest
    where newest.principal = ${file}.principal and newest.kvno > ${file}.kvno)`;
