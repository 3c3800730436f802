import { expect } from "chai";
import pg from "pg";
import { superuserUrl } from "../../harness/databases.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

/** What becomes of a statement of the service's own role, and of a superuser's. */
async function refusals(statement: string): Promise<string[]> {
  const said = [];
  for (const url of [server.databaseUrl, superuserUrl(server.databaseUrl)]) {
    const client = new pg.Client(url);
    await client.connect();
    said.push(
      await client
        .query(statement)
        .then(() => "done")
        .catch((error: Error) => error.message),
    );
    await client.end();
  }
  return said;
}

const refused = (table: string) => [
  `permission denied for table ${table.replace("audit.", "")}`,
  "the audit log is only ever added to",
];

describe("The audit log in the database", () => {
  it("refuses whoever would change or remove events, whatever the way, even a superuser", async () => {
    await server.secret();
    const partitions = await server.sql(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_event'::regclass",
    );
    const tables = ["audit_event", ...partitions.map(({ name }) => name)];
    const stored = () => server.sql("select * from audit_event order by id");
    const before = await stored();

    expect(tables.length).to.be.above(5);
    for (const table of tables) {
      for (const statement of [
        `update ${table} set action = 'x'`,
        `delete from ${table}`,
        `truncate ${table}`,
        `merge into ${table} a using (select 1) one on true when matched then delete`,
        `insert into ${table} select * from ${table} on conflict (id, occurred_at) do update set action = 'x'`,
      ]) {
        expect(await refusals(statement), statement).to.deep.equal(refused(table));
      }
    }
    for (const statement of ["delete from audit_chain", "truncate audit_chain"]) {
      expect(await refusals(statement), statement).to.deep.equal(refused("audit_chain"));
    }
    expect(await stored()).to.deep.equal(before);
  });

  it("gives the service's role the rights that it needs, and no others", async () => {
    const rights = (table: string) =>
      server.sql(
        `select array_agg(right_ order by right_) as held from unnest(array['select', 'insert', 'update', 'delete', 'truncate']) right_
         where has_table_privilege(current_user, $1, right_)`,
        [table],
      );
    const partitions = await server.sql(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_event'::regclass",
    );

    for (const table of ["audit_event", ...partitions.map(({ name }) => name)]) {
      expect(await rights(table), table).to.deep.equal([{ held: ["insert", "select"] }]);
    }
    expect(await rights("audit_chain")).to.deep.equal([{ held: ["insert", "select", "update"] }]);
  });
});
