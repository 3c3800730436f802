import { expect } from "chai";
import { Host } from "../../harness/host.ts";
import { useServer } from "../../harness/server.ts";
import { type Plan, pagesTouched, plansOf, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { populate } from "../keytabs/populate.ts";
import { recordOf, someFiles } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true", LOG_LEVEL: "info" });
const path = "/api/v1/keytabs/discovered";

/** How PostgreSQL runs what the server sends about files and keytabs. */
async function plansDuring(work: () => Promise<unknown>): Promise<Plan[]> {
  const statements = await statementsDuring(server, work);
  return plansOf(
    server.databaseUrl,
    statements.filter(({ text }) => text.includes("keytab") && !text.includes("into audit_event")),
  );
}

const ok = async (answer: Promise<{ status: number }>) => expect((await answer).status).to.equal(200);

/**
 * Each row that is read was found by an index, and what is touched for a file is what its row and the entries of its
 * indexes take: 25 pages, and thrice that where PostgreSQL clears old entries out of full index pages meanwhile.
 */
function expectFewPages(plans: readonly Plan[], files: number): void {
  expect(plans).not.to.have.length(0);
  for (const { statement, root } of plans) {
    const ways = stepsOf(root).filter((step) => step["Relation Name"] !== undefined);
    for (const way of ways) expect(way["Node Type"], statement.text).not.to.contain("Seq Scan");
    expect(pagesTouched(root), statement.text).to.be.at.most(100 + 120 * files);
  }
}

describe("Among 100,000 discovered keytabs, half of them managed", () => {
  let host: Host;

  before(async function () {
    this.timeout(120_000);
    host = await Host.enroll(server);
    await host.report(someFiles(20));
    const [{ id }] = await server.sql("select id from organization");
    await populate(server, id, { keytabs: 50_000, agents: 1000, files: 90_000, copies: 10_000 });
    await server.sql(`update discovered_keytab d set managed_keytab_id = k.id
      from keytab k where k.principal = d.principal and k.organization_id = d.organization_id`);
    await server.sql("vacuum (analyze)");
  });
  after(() => host.close());

  it("a report finds its rows by indexes", async () => {
    const files = someFiles(20);

    expectFewPages(await plansDuring(() => host.report(files)), files.length);
  });

  it("a scan that misses files finds them by indexes", async () => {
    const errors = [{ path: "/srv", reason: "permission denied" }];

    expectFewPages(await plansDuring(() => host.report([], { roots: ["/etc", "/srv"], errors })), 20);
    await host.report(someFiles(20));
  });

  it("a record is found by indexes", async () => {
    const { id } = await recordOf(server.admin, host, "/etc/1.keytab");

    expectFewPages(await plansDuring(() => ok(server.admin.rest("GET", `${path}/${id}`))), 1);
    expectFewPages(await plansDuring(() => ok(server.admin.rest("POST", `${path}/${id}/ignore`, {}))), 1);
  });

  it("the files of an agent are found by indexes", async () => {
    expectFewPages(
      await plansDuring(() => ok(server.admin.rest("GET", `${path}?agent_id=${host.id}&state=discovered`))),
      20,
    );
  });

  for (const query of [
    "",
    "page=3000",
    "state=imported",
    "state=discovered&is_managed=false",
    "is_managed=true",
    "drifted=true",
    "realm=example.com&principal=9",
    "finding=world_readable",
    "finding=shared_key",
    "finding=kvno_behind",
    "finding=shared_key&state=imported",
  ]) {
    it(`a page of the list${query === "" ? "" : ` by ${query}`} is found in a few passes`, async () => {
      const [{ pages }] = await server.sql(
        "select sum(relpages)::int as pages from pg_class where relname in ('discovered_keytab', 'keytab')",
      );

      const plans = await plansDuring(() => ok(server.admin.rest("GET", `${path}?limit=100&${query}`)));

      expect(plans).not.to.have.length(0);
      for (const { statement, root } of plans) {
        expect(pagesTouched(root), statement.text).to.be.at.most(5 * pages);
      }
    });
  }
});
