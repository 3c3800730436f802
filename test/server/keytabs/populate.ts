import type { TestServer } from "../../harness/server.ts";

/** How much of each an organization has. */
export interface Population {
  readonly keytabs: number;
  readonly agents: number;
  /** On all hosts together. Each tenth has a copy of it on every host. */
  readonly files: number;
  /** Of one file, in so many folders of one host. */
  readonly copies: number;
}

/** What keytabs and files hold in turn: three are compliant by the first policy, one is warned of, one is not. */
const holdings = [
  "{aes256-cts-hmac-sha1-96,aes128-cts-hmac-sha1-96}",
  "{aes256-cts-hmac-sha384-192,aes256-cts-hmac-sha1-96}",
  "{aes256-cts-hmac-sha1-96}",
  "{aes256-cts-hmac-sha1-96,aes128-cts-hmac-sha1-96,arcfour-hmac}",
  "{aes256-cts-hmac-sha1-96,aes128-cts-hmac-sha1-96,arcfour-hmac,des-cbc-md5}",
];

const holding = (n: string) => `(array['${holdings.join("','")}'])[${n} % ${holdings.length} + 1]::text[]`;
const hash = (text: string) => `encode(sha256((${text})::bytea), 'hex')`;

/**
 * Adds so many of each to an organization. All keytabs are kept as compliant; of a hundred, two are expired, one expires
 * in ten days, one is disabled and one is deleted. Of a hundred files, one is stale. Every other principal of a file has
 * a keytab.
 */
export async function populate(
  server: Pick<TestServer, "sql">,
  organizationId: string,
  { keytabs, agents, files, copies }: Population,
): Promise<void> {
  await server.sql(`
    insert into keytab (organization_id, name, principal, realm, kvno, encryption_types, status, cipher_compliance, source,
      entry_count, keytab_hash, expires_at, deleted_at)
    select '${organizationId}', 'keytab ' || n, 'HTTP/' || 2 * n || '.example.com@EXAMPLE.COM', 'EXAMPLE.COM', n % 9 + 1,
      ${holding("n")}, case when n % 100 = 3 then 'disabled' else 'active' end, 'compliant', 'import', 4, ${hash("'keytab ' || n")},
      case n % 100 when 1 then now() - interval '1 day' when 2 then now() - interval '1 year'
        when 5 then now() + interval '10 days' when 6 then now() + interval '1 year' end,
      case when n % 100 = 4 then now() end
    from generate_series(1, ${keytabs}) n;

    create temp table host as select uuidv7() as id, n from generate_series(1, ${agents}) n;

    insert into machine_identity (id, organization_id, name) select id, '${organizationId}', 'agent ' || n from host;

    insert into agent (id, organization_id, hostname) select id, '${organizationId}', n || '.example.com' from host;

    insert into discovered_keytab (organization_id, agent_id, file_path, root, keytab_hash, principal, realm, kvno,
      encryption_types, file_permissions, file_owner, findings, stale, scan_id)
    select '${organizationId}', host.id, '/etc/' || f || '.keytab', '/etc', ${hash("key")},
      'HTTP/' || key || '.example.com@EXAMPLE.COM', 'EXAMPLE.COM', case key when 'copy' then 3 else f % 7 + 1 end,
      ${holding("f")}, '0600', 'root:root',
      case f % 50 when 1 then '{world_readable,group_readable}' when 2 then '{group_readable}' when 3 then '{wrong_owner}'
        when 4 then '{old_kvnos}' else '{}' end::text[],
      f % 100 = 99, uuidv7()
    from (select f, f % ${agents} + 1 as n, case when f / ${agents} % 10 = 9 then 'everywhere ' || f / ${agents} else f::text end as key
          from generate_series(1, ${files}) f
          union all
          select ${files} + c, 1, 'copy' from generate_series(1, ${copies}) c) file
    join host using (n);

    drop table host;

    analyze`);
}
