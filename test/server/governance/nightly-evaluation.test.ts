import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { inTransaction } from "../../../src/server/db/database.ts";
import { factsOf } from "../../../src/server/governance/facts.ts";
import { evaluationJob } from "../../../src/server/governance/nightly-evaluation.ts";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/governance/reports";
/** Holds as long as there are no secrets. */
const rotating = { rotation_policy: { require_rotation_enabled: true } };

const imported = async (by: Client, report: object = rotating) => (await by.rest("POST", path, report)).body;
const read = async (by: Client, id: string) => (await by.rest("GET", `${path}/${id}`)).body;
const statusOf = async (by: Client, id: string) => (await read(by, id)).evaluation.status as string;
const events = (id: string) =>
  server.sql("select * from audit_event where resource_id = $1 and action = 'governance.evaluated'", [id]);

function nightfall(): Promise<void> {
  const { core } = server.server;
  return evaluationJob(core, factsOf(core.config)).run({});
}

describe("Each night", () => {
  it("the current report is evaluated anew, and a status that changed is recorded, once", async () => {
    const { admin, projectId } = await server.otherOrganization();
    const { id } = await imported(admin);
    await server.secret({ project_id: projectId }, admin);

    await nightfall();
    await nightfall();

    expect(await statusOf(admin, id)).to.equal("non_compliant");
    const [event, ...others] = await events(id);
    expect(event).to.include({ actor_type: "system", outcome: "success", resource_type: "governance_report" });
    expect(JSON.parse(event.details)).to.deep.equal({ from: "compliant", to: "non_compliant" });
    expect(others).to.deep.equal([]);
  });

  it("a status that stays is not recorded, and its evaluation is a new one", async () => {
    const { admin } = await server.otherOrganization();
    const { id, evaluation } = await imported(admin);

    await nightfall();

    const after = (await read(admin, id)).evaluation;
    expect(after.evaluated_at > evaluation.evaluated_at).to.equal(true);
    expect({ ...after, evaluated_at: "" }).to.deep.equal({ ...evaluation, evaluated_at: "" });
    expect(await events(id)).to.deep.equal([]);
  });

  it("reports that are not the current one stay as they were evaluated last", async () => {
    const { admin, projectId } = await server.otherOrganization();
    const before = await imported(admin);
    await imported(admin, {});
    await server.secret({ project_id: projectId }, admin);

    await nightfall();

    expect((await read(admin, before.id)).evaluation).to.deep.equal(before.evaluation);
  });

  it("one organization whose report cannot be evaluated keeps no other from it", async () => {
    const organizations = [];
    for (let count = 0; count < 3; count += 1) {
      const { admin, projectId } = await server.otherOrganization();
      const { id } = await imported(admin);
      await server.secret({ project_id: projectId }, admin);
      organizations.push({ admin, id });
    }
    const [first, broken, last] = organizations as [
      (typeof organizations)[0],
      { id: string },
      (typeof organizations)[0],
    ];
    const damaged = JSON.stringify({ naming_policy: { required_patterns: ["("] } });
    await server.sql("update governance_report set report = $2 where id = $1", [broken.id, damaged]);

    await nightfall();

    expect(await statusOf(first.admin, first.id)).to.equal("non_compliant");
    expect(await statusOf(last.admin, last.id)).to.equal("non_compliant");
    expect(server.log).to.include("the governance report of an organization was not evaluated");
    await server.sql("delete from governance_report where id = $1", [broken.id]);
  });

  it("all organizations have their turn, however many there are", async function () {
    this.timeout(30_000);
    const { id } = await imported(server.admin, {});
    await server.sql(
      `with o as (insert into organization (name) select 'many-' || n from generate_series(1, 50) n returning id)
       insert into governance_report (organization_id, report, evaluation, imported_by, imported_at)
       select o.id, r.report, r.evaluation, r.imported_by, now() from o, governance_report r where r.id = $1`,
      [id],
    );
    const [{ now }] = await server.sql("select now()");
    const { core } = await server.startReplica({}, ["jobs"]);
    const waiting = async () => {
      const [{ count }] = await server.sql(
        `select count(*)::int from governance_report r join organization o on o.id = r.organization_id
         where o.name like 'many-%' and (r.evaluation ->> 'evaluated_at')::timestamptz < $1`,
        [now],
      );
      return count as number;
    };
    expect(await waiting()).to.equal(50);

    const em = core.db.forkWithoutTenant();
    const enqueue = () => inTransaction(em, () => core.jobs.enqueue(em, "governance.evaluate", {}));
    while (
      !(await enqueue().then(
        () => true,
        () => false,
      ))
    )
      await sleep(50);

    while ((await waiting()) > 0) await sleep(100);
  });
});
