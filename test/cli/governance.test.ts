import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast governance", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const write = (report: unknown) => writeFileSync(join(cli().home, "report.json"), JSON.stringify(report));
  const requirements = {
    naming_policy: { required_patterns: ["^[A-Z_]+$"], forbidden_patterns: [] },
    password_policy: { history_count: 5 },
    certificate_policy: {},
  };

  it("says so when there is no report", async () => {
    const { status, stderr } = await cli().run("governance status");

    expect({ status, stderr }).to.deep.include({ status: 5 });
  });

  it("imports a report as it is, and shows who violates it", async () => {
    const secret = await server.secret({ key: "lower_case" });
    write(requirements);

    const output = await cli().print("governance import report.json");

    const current = (await server.admin.rest("GET", "/api/v1/governance/reports/current")).body;
    expect(current.report).to.deep.equal(requirements);
    expect(output).to.match(/^non_compliant at \S+\nreport \S+, the current one\n3 rules: /);
    expect(output).to.match(/^naming_policy\.required_patterns +\["\^\[A-Z_\]\+\$"\] +failed /m);
    expect(output).to.contain(`\n\nnaming_policy.required_patterns:\n  secret lower_case (${secret.id}): `);
  });

  it("shows, lists, evaluates again and removes reports", async () => {
    write({ mfa_policy: { min_enforcement_level: "disabled" } });
    const { id } = await cli().json("governance import report.json");

    const [first] = await cli().json("governance list");
    const table = await cli().print("governance list");
    const evaluated = await cli().json("governance evaluate");
    const shown = await cli().json(`governance status ${id}`);
    const { body } = await server.admin.rest("GET", `/api/v1/governance/reports/${id}`);
    const { status } = await cli().run(`governance rm ${id} --yes`);

    expect(first).to.include({ id, is_current: true });
    expect(table).to.match(/^IMPORTED +CURRENT +STATUS +RULES +FAILED +EVALUATED +ID\n\S+ +yes +compliant +1 +0 /);
    expect(evaluated).to.deep.equal(shown);
    expect(shown).to.deep.equal(body);
    expect(status).to.equal(0);
    expect((await cli().run(`governance status ${id}`)).status).to.equal(5);
  });

  it("names every offender in a file by its path, and sends nothing", async () => {
    write({ rotation_policy: { max_secret_rotation_days: "90", unheard_of: 1 }, passwordPolicy: {} });

    const { status, stderr } = await cli().run("governance import report.json", { env: { HOLDFAST_URL: "" } });

    expect(status).to.equal(7);
    expect(stderr)
      .to.contain("rotation_policy.max_secret_rotation_days must be an integer")
      .and.to.contain("rotation_policy.unheard_of is not known here")
      .and.to.contain("passwordPolicy is not known here");
  });

  it("refuses a file that can be read in two ways, or in none", async () => {
    const twice = await cli().run("governance import -", {
      input: '{"mfa_policy":{},"mfa_policy":{"required_methods":[]}}',
    });
    const notUtf8 = await cli().run("governance import -", {
      input: Buffer.from('{"naming_policy":{"required_patterns":["\xe4"]}}', "latin1"),
    });

    expect([twice.status, notUtf8.status]).to.deep.equal([2, 2]);
    expect(twice.stderr).to.equal("holdfast: - holds a key twice\n");
    expect(notUtf8.stderr).to.equal("holdfast: - is not UTF-8\n");
  });

  it("tells what the server says of a value, and of a file that holds no JSON", async () => {
    write({ naming_policy: { required_patterns: ["("] } });
    const refused = await cli().run("governance import report.json");
    const noJson = await cli().run("governance import -", { input: "report" });

    expect(refused.status).to.equal(7);
    expect(refused.stderr).to.contain("naming_policy.required_patterns[0]");
    expect(noJson.status).to.equal(2);
  });
});
