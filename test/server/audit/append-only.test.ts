import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const refusal = (statement: string) =>
  server.sql(statement).then(
    () => "done",
    (error: Error) => error.message,
  );

describe("The audit log in the database", () => {
  it("refuses whoever would change or remove events, whatever the way, even a superuser", async () => {
    await server.secret();
    const partitions = await server.sql("select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_event'::regclass");
    const tables = ["audit_event", ...partitions.map(({ name }) => name)];
    const stored = () => server.sql("select * from audit_event order by id");
    const before = await stored();

    expect(tables.length).to.be.above(5);
    for (const table of tables) {
      for (const statement of [
        `update ${table} set action = 'x'`,
        `delete from ${table}`,
        `truncate ${table}`,
        `merge into ${table} a using (select 1) on true when matched then delete`,
        `insert into ${table} select * from ${table} on conflict (id, occurred_at) do update set action = 'x'`,
      ]) {
        expect(await refusal(statement), statement).to.match(/only ever added to|permission denied/);
      }
    }
    for (const statement of ["delete from audit_chain", "truncate audit_chain"]) {
      expect(await refusal(statement), statement).to.match(/only ever added to|permission denied/);
    }
    expect(await stored()).to.deep.equal(before);
  });
});
