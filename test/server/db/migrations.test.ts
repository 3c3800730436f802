import { randomBytes } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { Database } from "../../../src/server/db/database.ts";
import { Migration0001 } from "../../../src/server/db/migrations/0001-initial.ts";
import { migrations } from "../../../src/server/db/migrations/list.ts";
import { createLogger } from "../../../src/server/logging.ts";
import { entities } from "../../../src/server/server.ts";
import { Client } from "../../harness/client.ts";
import { databaseUrl, dropDatabase } from "../../harness/databases.ts";
import { urlOf, useServer } from "../../harness/server.ts";

describe("The migrations", () => {
  const server = useServer();
  const open = (url = server.databaseUrl) =>
    Database.open({ url, poolSize: 2, entities, logger: createLogger("silent") });

  it("leave the schema that the entities say", async () => {
    const db = await open();

    const lacking = await db.orm.schema.getUpdateSchemaSQL({ wrap: false });
    await db.close();

    expect(lacking.trim(), "run npm run migration -- NAME").to.equal("");
  });

  it("change nothing the second time", async () => {
    const schema =
      "select table_name, column_name, data_type from information_schema.columns where table_schema = 'public' order by 1, 2";
    const before = await server.sql(schema);
    const db = await open();

    await db.migrate();
    await db.close();

    expect(await server.sql(schema)).to.deep.equal(before);
    expect(await server.sql("select name from migration order by id")).to.deep.equal(
      migrations.map(({ name }) => ({ name })),
    );
  });

  it("are applied once when several replicas start at once on an empty database, which get one organization", async () => {
    const empty = databaseUrl(`test_${randomBytes(6).toString("hex")}`);
    const admin = new pg.Client(databaseUrl("postgres"));
    await admin.connect();
    await admin.query(`create database ${empty.split("/").at(-1)} template template0`);
    await admin.end();
    const { databaseUrl: own } = server;
    server.databaseUrl = empty;

    try {
      const replicas = await Promise.all(
        Array.from({ length: 4 }, () => server.startReplica({}, ["api", "ocsp", "jobs"])),
      );
      const given = replicas.flatMap(({ bootstrapped }) => bootstrapped ?? []);
      const [first] = given;
      const answers = await Promise.all(
        replicas.map(async (replica) => {
          const url = urlOf(replica);
          const { token } = await server.login(first?.clientId ?? "", first?.clientSecret ?? "", url);
          const list = `/api/v1/secrets?project_id=${first?.projectId}`;
          const { status } = await new Client(url, token).rest("GET", list);
          return status;
        }),
      );
      const counts = await server.sql(`select (select count(*)::int from organization) as organizations,
        (select count(*)::int from organization_key) as keys, (select count(*)::int from project) as projects,
        (select count(*)::int from machine_identity) as identities, (select array_agg(name order by id) from migration) as applied`);
      await Promise.all(replicas.map((replica) => replica.stop(500)));

      expect(given).to.have.length(1);
      expect(answers).to.deep.equal([200, 200, 200, 200]);
      const applied = migrations.map(({ name }) => name);
      expect(counts).to.deep.equal([{ organizations: 1, keys: 1, projects: 1, identities: 1, applied }]);
    } finally {
      server.databaseUrl = own;
      await dropDatabase(empty);
    }
  });
});

describe("uuidv7() for PostgreSQL before 18", () => {
  const server = useServer();

  it("makes version 7 UUIDs of the present that sort by the time they were made", async () => {
    const migration = new Migration0001({} as never, {} as never);
    migration.up();
    const [fallback] = migration.getQueries() as string[];
    const renamed = fallback?.replace("function uuidv7()", "function older_uuidv7()").replace("< 180000", "> 0") ?? "";

    await server.sql(renamed);
    const rows = await server.sql(
      "select older_uuidv7()::text as id, (extract(epoch from now()) * 1000)::float8 as now from generate_series(1, 5000)",
    );
    const ids = rows.map(({ id }) => id as string);
    const heads = ids.map((id) => id.replaceAll("-", "").slice(0, 16));
    const times = ids.map((id) => Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16));

    expect(renamed).to.include("older_uuidv7() returns uuid");
    expect(
      ids.filter((id) => !/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)),
    ).to.deep.equal([]);
    expect(new Set(ids).size).to.equal(5000);
    expect(heads).to.deep.equal(heads.toSorted());
    expect(new Set(heads).size).to.be.above(500);
    expect(Math.abs((times[0] ?? 0) - rows[0].now)).to.be.below(1000);
  });
});
