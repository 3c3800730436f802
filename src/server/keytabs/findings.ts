/**
 * SQL for the findings about a file that take others into account; the other findings are kept with the row. Each is
 * here twice: as a condition on a row of table discovered_keytab, by its alias, which looks its few rows up by an index;
 * and as the number of such rows, which reads all at once. What is stale is on no host any more.
 */

const onAnotherAgent = (file: string, comparison: "<" | ">") => `exists (
    select from discovered_keytab other
    where other.organization_id = ${file}.organization_id and other.keytab_hash = ${file}.keytab_hash
      and other.agent_id ${comparison} ${file}.agent_id and not other.stale)`;

/** The same bytes are on another host. However many copies a host has, the next agent's is found at once. */
export const isSharedKey = (file: string) => `(${onAnotherAgent(file, "<")} or ${onAnotherAgent(file, ">")})`;

/** Counts the files of organization $1 whose bytes are on another host too. */
export const countSharedKeys = `select coalesce(sum(files), 0)::int from (
    select count(*) as files from discovered_keytab where organization_id = $1 and not stale
    group by keytab_hash having min(agent_id::text) <> max(agent_id::text)) shared`;

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

/** Counts the files of organization $1 whose principal has a higher version number elsewhere. */
export const countKvnosBehind = `with file as (
    select principal, kvno from discovered_keytab where organization_id = $1 and not stale),
  newest as (
    select principal, max(kvno) as kvno
    from (select * from file
          union all select principal, kvno from keytab where organization_id = $1 and deleted_at is null) key
    group by principal)
  select count(*)::int as files from file join newest using (principal) where file.kvno < newest.kvno`;
