import { expect } from "chai";
import { importKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { evaluationOf, resultOf, violationsOf } from "./evaluating.ts";
import { newAuthority, newCertificate } from "./issued.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

describe("An evaluation", () => {
  it("of a report that requires nothing is compliant", async () => {
    const { admin } = await server.otherOrganization();

    for (const report of [{}, { rotation_policy: {}, naming_policy: {} }]) {
      const { status, summary, results, evaluated_at } = await evaluationOf(admin, report);

      expect(status).to.equal("compliant");
      expect(summary).to.deep.equal({ rules: 0, passed: 0, failed: 0, not_applicable: 0, not_evaluated: 0 });
      expect(results).to.deep.equal([]);
      expect(Math.abs(Date.parse(evaluated_at) - Date.now())).to.be.lessThan(60_000);
    }
  });

  it("has a result for each field that the report mentions, in the order of the specification, and counts them", async () => {
    const { admin, projectId } = await server.otherOrganization();
    await server.secret({ project_id: projectId, key: "k" }, admin);

    const { status, summary, results } = await evaluationOf(admin, {
      session_policy: { max_idle_timeout_minutes: 30 },
      naming_policy: { forbidden_patterns: ["^k$"], required_patterns: [] },
      password_policy: { history_count: 3, min_length: 8 },
    });

    expect(status).to.equal("non_compliant");
    expect(results.map(({ rule, required, status: found }) => [rule, required, found])).to.deep.equal([
      ["password_policy.min_length", 8, "passed"],
      ["password_policy.history_count", 3, "not_evaluated"],
      ["naming_policy.required_patterns", [], "not_applicable"],
      ["naming_policy.forbidden_patterns", ["^k$"], "failed"],
      ["session_policy.max_idle_timeout_minutes", 30, "passed"],
    ]);
    expect(summary).to.deep.equal({ rules: 5, passed: 2, failed: 1, not_applicable: 1, not_evaluated: 1 });
  });

  it("is partially_evaluated when nothing fails and something cannot be known", async () => {
    const { admin } = await server.otherOrganization();

    const unknown = await evaluationOf(admin, { password_policy: { history_count: 3, min_length: 8 } });
    const failing = await evaluationOf(admin, { password_policy: { history_count: 3, min_length: 9 } });

    expect([unknown.status, failing.status]).to.deep.equal(["partially_evaluated", "non_compliant"]);
  });

  it("is compliant when what is required is so, or there is nothing to check", async () => {
    const { admin } = await server.otherOrganization();

    const { status, summary } = await evaluationOf(admin, {
      password_policy: { min_length: 8 },
      rotation_policy: { max_secret_rotation_days: 90 },
    });

    expect(status).to.equal("compliant");
    expect(summary).to.include({ passed: 1, not_applicable: 1 });
  });

  it("lists the first hundred violations by name, and counts all", async () => {
    const { admin, projectId, organizationId } = await server.otherOrganization();
    await server.sql(
      `insert into secret (organization_id, project_id, key, created_by)
       select $1, $2, 'name-' || lpad((n * 7919 % 250)::text, 3, '0'), 'test' from generate_series(1, 250) n`,
      [organizationId, projectId],
    );
    await server.secret({ project_id: projectId, key: "Name" }, admin);

    const result = await resultOf(admin, "rotation_policy.require_rotation_enabled", true);

    expect([result.checked, result.violation_count]).to.deep.equal([251, 251]);
    expect(result.violations.map(({ name }) => name)).to.deep.equal([
      "Name",
      ...Array.from({ length: 99 }, (_, n) => `name-${String(n).padStart(3, "0")}`),
    ]);
  });

  it("never looks at another organization", async () => {
    const other = await server.otherOrganization();
    const { id } = await server.secret({ project_id: other.projectId, key: "theirs" }, other.admin);
    await server.sql("update secret_version set created_at = now() - interval '400 days' where secret_id = $1", [id]);
    await importKeytab(other.admin, undefined, { name: "theirs", project_id: other.projectId });
    const ca = await newAuthority(server, other.organizationId, "theirs", { algorithm: "RSA", size: 2048 });
    await newCertificate(server, ca, "theirs", { algorithm: "RSA", size: 2048, validDays: 3000 });
    await other.admin.rest("PUT", `/api/v1/organizations/${other.organizationId}`, {
      password_policy: { min_length: 20, require_special: true },
      session_policy: { max_idle_timeout_minutes: 1 },
    });
    const all = {
      password_policy: { min_length: 8, max_length: 1024 },
      certificate_policy: {
        min_key_size_rsa: 4096,
        min_key_size_ecdsa: 521,
        allowed_algorithms: [],
        max_validity_days: 1,
        require_auto_renewal: true,
      },
      rotation_policy: { max_secret_rotation_days: 1, max_cert_rotation_days: 1, require_rotation_enabled: true },
      naming_policy: { required_patterns: ["ours"], forbidden_patterns: ["theirs"] },
      session_policy: { max_idle_timeout_minutes: 30 },
    };
    const { admin } = await server.otherOrganization();

    const ours = await evaluationOf(admin, all);
    const theirs = await evaluationOf(other.admin, all);

    expect(ours.status).to.equal("compliant");
    expect(ours.results.flatMap(violationsOf)).to.deep.equal([]);
    expect(ours.summary).to.include({ passed: 3, not_applicable: 10 });
    expect(theirs.results.filter(({ status }) => status === "failed")).to.have.length(9);
  });
});
