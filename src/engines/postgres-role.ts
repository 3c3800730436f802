import { createHmac } from "node:crypto";
import { Client } from "pg";

/** How to get at the database `holdfast` of a cluster. */
export interface PostgresUrls {
  /** As the role that the service uses: the database is its own, and triggers and revoked rights hold for it. */
  readonly url: string;
  /** As the superuser that the cluster was made with. */
  readonly superuserUrl: string;
}

/** The URLs for the socket in the folder `run`. */
export function postgresUrls(run: string, superuserPassword: string): PostgresUrls {
  const at = `@${encodeURIComponent(run)}:5432/holdfast`;
  return {
    url: `postgresql://holdfast:${passwordOfRole(superuserPassword)}${at}`,
    superuserUrl: `postgresql://service:${superuserPassword}${at}`,
  };
}

/** One secret is enough to keep: the other follows from it, and tells nothing about it. */
const passwordOfRole = (superuserPassword: string) =>
  createHmac("sha256", superuserPassword).update("role holdfast").digest("base64url");

const ofSuperuser = (owner: string) =>
  `${owner} = 'service'::regrole and nspname !~ '^pg_' and nspname <> 'information_schema'`;

/** Hands over what the superuser owns, as the releases before this role left it. */
const handOver = `do $$
  declare object text;
  begin
    for object in
      select format('schema %I', nspname) from pg_namespace where ${ofSuperuser("nspowner")} and nspname <> 'public'
      union all
      select format('table %I.%I', nspname, relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where ${ofSuperuser("relowner")} and relkind in ('r', 'p', 'v', 'm', 'S')
        -- A sequence that belongs to a column goes with its table.
        and not exists (select from pg_depend d
          where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i') and relkind = 'S')
      union all
      select format('type %I.%I', nspname, typname) from pg_type t join pg_namespace n on n.oid = t.typnamespace
      where ${ofSuperuser("typowner")} and typtype in ('d', 'e', 'r')
      union all
      select format('routine %s', p.oid::regprocedure) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where ${ofSuperuser("proowner")}
    loop
      execute format('alter %s owner to holdfast', object);
    end loop;
  end $$`;

/** Makes the role that the service uses, in a cluster that answers at these URLs. It may make databases of its own. */
export async function prepareRole({ url, superuserUrl }: PostgresUrls): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query("begin");
    await client.query("do $$ begin if to_regrole('holdfast') is null then create role holdfast; end if; end $$");
    await client.query(`alter role holdfast login createdb nosuperuser password '${new URL(url).password}'`);
    await client.query("alter database holdfast owner to holdfast");
    await client.query(handOver);
    await client.query("commit");
  } finally {
    await client.end();
  }
}
