import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer({ DATABASE_POOL_SIZE: "4" });
const path = "/api/v1/governance/reports";

/** Any of these patterns takes some hundred times as long for any of these names as a usual one. */
const patterns = ["(a|b)*a(a|b){900}(a|b){900}(a|b){900}[xyz]", "[ab]*a[ab]{999}[xyz]"];
const names = `select string_agg(case when random() < 0.5 then 'a' else 'b' end, '')
  from generate_series(1, 4 * 250) n group by n % 4`;

describe("However many reports an organization has evaluated at once", () => {
  it("others are answered meanwhile, and what would wait for long is refused", async function () {
    this.timeout(60_000);
    const { admin, projectId, organizationId } = await server.otherOrganization();
    await server.sql(
      `insert into secret (organization_id, project_id, key, created_by) select $1, $2, name, 'test' from (${names}) n(name)`,
      [organizationId, projectId],
    );
    const report = { naming_policy: { forbidden_patterns: patterns } };
    const { status, body } = await admin.rest("POST", path, report);
    expect([status, body.evaluation.status]).to.deep.equal([201, "compliant"]);

    const slow = Array.from({ length: 20 }, () => admin.rest("POST", path, report));
    const waitsMs: number[] = [];
    for (let count = 0; count < 5; count += 1) {
      const began = performance.now();
      expect((await server.admin.rest("POST", path, {})).status).to.equal(201);
      waitsMs.push(performance.now() - began);
    }
    const answers = await Promise.all(slow);

    const refused = answers.filter((answer) => answer.status !== 201);
    expect(Math.max(...waitsMs)).to.be.below(2000);
    expect(refused).to.have.length.within(1, 10);
    for (const { status: code, headers, body: refusal } of refused) {
      expect([code, refusal.error.code, headers.get("retry-after")]).to.deep.equal([503, "SERVICE_UNAVAILABLE", "1"]);
    }
  });
});
