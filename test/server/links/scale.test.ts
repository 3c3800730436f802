import { expect } from "chai";
import { claimDue } from "../../../src/server/links/claims.ts";
import { useServer } from "../../harness/server.ts";
import { type Plan, pagesTouched, plansOf, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { type LinkRecord, Links, linksPath, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

/** What a statement may touch: reading all that there is would be thousands. */
const mostPages = 80;
/** A claim looks at every host at which something waits, and writes what it takes. */
const mostPagesOfClaim = 600;

/** How PostgreSQL runs what the server sends about links. */
async function plansDuring(work: () => Promise<unknown>): Promise<Plan[]> {
  const statements = await statementsDuring(server, work);
  return plansOf(
    server.databaseUrl,
    statements.filter(({ text }) => text.includes("secret_link") && !text.includes("into audit_event")),
  );
}

function expectFewPages(plans: readonly Plan[], most = mostPages): void {
  expect(plans).not.to.have.length(0);
  for (const { statement, root } of plans) {
    const ways = stepsOf(root).filter((step) => step["Relation Name"] === "secret_link");
    for (const way of ways) expect(way["Node Type"], statement.text).not.to.equal("Seq Scan");
    expect(pagesTouched(root), statement.text).to.be.at.most(most);
  }
}

describe("Among 100,000 links", () => {
  let link: LinkRecord;

  before(async function () {
    this.timeout(120_000);
    link = await links.of(toWebhook("https://hooks.example.com", { sync_enabled: false }));
    await server.sql(
      `insert into secret (organization_id, project_id, key, created_by)
       select organization_id, project_id, 'many-' || n, 'system' from secret, generate_series(1, 10000) n`,
    );
    // One host has ten thousand to be written, at twenty others one is to be tried again later, and all else is up to date.
    await server.sql(
      `insert into secret_link (organization_id, secret_id, integration, config, place, host, status, due_at, created_by)
       select s.organization_id, s.id, 'webhook', '{}', sha256((s.key || n)::bytea),
         case n when 1 then 'busy.example.com' else 'host-' || right(s.key, 3) || '.example.com' end,
         case n when 1 then 'pending' else 'synced' end, case n when 1 then now() - interval '1 hour' end, 'system'
       from secret s, generate_series(1, 10) n where s.key like 'many-%'`,
    );
    await server.sql(
      `update secret_link set due_at = now() + interval '5 minutes', status = 'failed' where id in (
         select distinct on (host) id from secret_link where host between 'host-100' and 'host-120')`,
    );
    await server.sql("vacuum (analyze) secret_link, secret");
  });

  it("what is due is found in a few steps, also behind a host with thousands", async () => {
    const { core } = server.server;

    expectFewPages(await plansDuring(() => claimDue(core, "", 10)), mostPagesOfClaim);
    expectFewPages(await plansDuring(() => claimDue(core, "busy.example.com", 10)), mostPagesOfClaim);
  });

  it("the links of a secret are listed, changed, forced and removed in a few steps", async () => {
    const { admin } = server;
    const path = linksPath(link.secret_id);
    const secret = `/api/v1/secrets/${link.secret_id}`;
    const plans = await plansDuring(async () => {
      await admin.rest("GET", path);
      await admin.rest("GET", `${secret}/sync-status`);
      const { body } = await links.post(link.secret_id, toWebhook("https://hooks.example.com/second"));
      await links.put(body, { name: "renamed", sync_enabled: false });
      await links.put(body, { config: { url: "https://hooks.example.com/third" }, sync_enabled: true });
      await admin.rest("POST", `${secret}/force-sync`, {});
      await admin.rest("POST", `${secret}/environments/eu/force-sync`, {});
      await links.delete(body);
    });

    expectFewPages(plans);
  });

  it("a new version finds the links of its secret in a few steps", async () => {
    const [{ pages: before }] = await server.sql(touched);
    await links.write(link, "v2");
    // The statistics of a connection arrive when it is idle.
    await server.sql("select pg_stat_force_next_flush()");
    const [{ pages: after }] = await server.sql(touched);

    expect(Number(after) - Number(before)).to.equal(0);
  });
});

const touched = "select seq_scan as pages from pg_stat_user_tables where relname = 'secret_link'";
