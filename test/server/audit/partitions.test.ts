import { expect } from "chai";
import { addPartitions, partitionJob } from "../../../src/server/audit/partitions.ts";
import { useServer } from "../../harness/server.ts";
import { newLog, verdict } from "./tampering.ts";

const server = useServer();

const monthName = (ahead: number) => {
  const now = new Date();
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead));
  return `audit.event_${month.toISOString().slice(0, 7).replace("-", "_")}`;
};
const partitions = async () =>
  (
    await server.sql(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_event'::regclass order by 1",
    )
  ).map(({ name }) => name);

describe("The partitions of the audit log", () => {
  it("are there for this month and the next three, and for all else", async () => {
    expect(await partitions()).to.deep.equal([...[0, 1, 2, 3].map(monthName), "audit.event_default"].sort());
  });

  it("hold each event in that of its month", async () => {
    const log = await newLog(server);

    const rows = await server.sql(
      "select distinct tableoid::regclass::text as name from audit_event where organization_id = $1",
      [log.organizationId],
    );

    expect(rows).to.deep.equal([{ name: monthName(0) }]);
  });

  it("are made when they are missing, once however many replicas make them, with what guards the others", async () => {
    const { core } = server.server;
    const [, , , last = ""] = [0, 1, 2, 3].map(monthName);
    await server.sql(`drop table ${last}`);

    await Promise.all([addPartitions(core.db), addPartitions(core.db), partitionJob(core).run({})]);

    expect(await partitions()).to.include(last);
    const [{ triggers }] = await server.sql(
      "select array_agg(tgname::text order by 1) as triggers from pg_trigger where tgrelid = to_regclass($1)",
      [last],
    );
    expect(triggers).to.deep.equal(["append_only"]);
    const [{ indexes }] = await server.sql(
      "select array_agg(indexname::text) as indexes from pg_indexes where schemaname || '.' || tablename = $1",
      [last],
    );
    expect(indexes).to.have.length(6);
  });

  it("are made while others write, and without them nothing fails", async () => {
    const log = await newLog(server);
    await server.sql(`drop table ${monthName(2)}`);
    const reads = Array.from({ length: 50 }, () => log.admin.rest("GET", `/api/v1/secrets/${log.secretId}`));

    await addPartitions(server.server.core.db);
    const answers = await Promise.all(reads);

    expect(new Set(answers.map(({ status }) => status))).to.deep.equal(new Set([200]));
  });

  it("leave a month where it is whose events went to the default one, and make the others", async () => {
    const [here = "", next = ""] = [0, 1].map(monthName);
    await server.sql(`alter table audit_event detach partition ${here}`);
    await server.sql(`alter table ${here} rename to event_kept`);
    await server.sql(`drop table ${next}`);
    const log = await newLog(server);

    await addPartitions(server.server.core.db);

    expect(await partitions())
      .to.include(next)
      .and.not.to.include(here);
    expect(await verdict(log)).to.equal("intact");
  });
});
