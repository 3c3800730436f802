import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer({ DATABASE_POOL_SIZE: "4" });
const path = "/api/v1/governance/reports";

/** Any of these patterns takes some hundred times as long for any of these names as a usual one. */
const patterns = ["(a|b)*a(a|b){900}(a|b){900}(a|b){900}[xyz]", "[ab]*a[ab]{999}[xyz]"];
const names = `select string_agg(case when random() < 0.5 then 'a' else 'b' end, '')
  from generate_series(1, 4 * 250) n group by n % 4`;

describe("However many reports an organization has evaluated at once", () => {
  it("others wait for one of them, not for all", async function () {
    this.timeout(60_000);
    const { admin, projectId, organizationId } = await server.otherOrganization();
    await server.sql(
      `insert into secret (organization_id, project_id, key, created_by) select $1, $2, name, 'test' from (${names}) n(name)`,
      [organizationId, projectId],
    );
    const report = { naming_policy: { forbidden_patterns: patterns } };
    const { status, body } = await admin.rest("POST", path, report);
    expect([status, body.evaluation.status]).to.deep.equal([201, "compliant"]);

    let ended = 0;
    const slow = Array.from({ length: 12 }, () => admin.rest("POST", path, report).finally(() => (ended += 1)));
    const waited: number[] = [];
    for (let count = 0; count < 5; count += 1) {
      const before = ended;
      expect((await server.admin.rest("POST", path, {})).status).to.equal(201);
      waited.push(ended - before);
    }

    // For the one that runs, and one that may begin while the call is on its way.
    expect(Math.max(...waited)).to.be.at.most(2);
    for (const answer of await Promise.all(slow)) expect(answer.status).to.be.oneOf([201, 503]);
  });
});
