import type { TestServer } from "../harness/server.ts";

/** Something that an import has left, and that no whole import leaves. */
export interface Half {
  readonly what: string;
  readonly id: string;
}

/** Looks for halves where every keytab came from one host's file, which has not changed since. */
export function findHalfImports(database: Pick<TestServer, "sql">): Promise<Half[]> {
  return database.sql(`
    with live as (select * from keytab where deleted_at is null),
      event as (select resource_id from audit_event where action = 'keytab.import' and outcome = 'success')
    select 'keytab without its version' as what, k.id::text from live k where not exists (
        select from keytab_version v
        where v.keytab_id = k.id and v.version = k.version and v.keytab_hash = k.keytab_hash)
    union all select 'keytab with more versions than it says', k.id::text from live k
      where k.version <> (select count(*) from keytab_version v where v.keytab_id = k.id)
    union all select 'keytab without a key', k.id::text from live k
      where not exists (select from data_key d where d.record_id = k.id)
    union all select 'keytab that nobody is recorded to have imported', k.id::text from live k
      where (select count(*) from event where resource_id = 'kt_' || k.id) <> 1
    union all select 'keytab without a file', k.id::text from live k
      where not exists (select from discovered_keytab f where f.managed_keytab_id = k.id)
    union all select 'recorded import of nothing', resource_id from event
      where not exists (select from live k where 'kt_' || k.id = resource_id)
    union all select 'file without its keytab', f.id::text from discovered_keytab f join live k using (keytab_hash)
      where f.managed_keytab_id is distinct from k.id
    union all select 'file with the keytab of another', f.id::text from discovered_keytab f
      join live k on k.id = f.managed_keytab_id where k.keytab_hash <> f.keytab_hash
    union all select 'key of nothing', d.record_id::text from data_key d where not exists (
        select id from keytab where id = d.record_id
        union all select id from agent_command where id = d.record_id and upload is not null
        union all select id from secret where id = d.record_id
        union all select id from user_account where id = d.record_id)
    order by 1, 2`);
}
