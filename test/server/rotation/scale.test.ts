import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { type Plan, pagesTouched, plansOf, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { makeDue, rotationRounds } from "./rounds.ts";

const server = useServer();

/** What a round may touch to find that there is nothing to do: reading all that there is would be thousands. */
const mostPages = 40;
/** What it may touch for each secret that it takes: the row, and each index of the table. */
const mostPagesEach = 40;

/** How PostgreSQL runs what a round sends to find out what is to be done. */
async function plansOfRound(): Promise<Plan[]> {
  const statements = await statementsDuring(server, () => rotationRounds(server.server));
  const finding = statements.filter(({ text }) => /rotation_due_at <= now\(\)|environment is null/.test(text));
  expect(finding).to.have.length.at.least(3);
  return plansOf(server.databaseUrl, finding);
}

function expectFewPages(plans: readonly Plan[], most = mostPages): void {
  for (const { statement, root } of plans) {
    const ways = stepsOf(root).filter((step) =>
      /^(secret|gateway_task|rotation_config)$/.test(step["Relation Name"] ?? ""),
    );
    for (const way of ways) expect(way["Node Type"], statement.text).not.to.equal("Seq Scan");
    expect(pagesTouched(root), statement.text).to.be.at.most(most);
  }
}

/** So many secrets that are rotated by schedule, the first of them soon after `after`, one after the other. */
const addSecrets = (count: number, after: string, prefix: string) =>
  server.sql(
    `insert into secret (organization_id, project_id, key, created_by, rotation_enabled, rotation_interval_days,
       next_rotation, rotation_due_at)
     select organization_id, id, $3 || n, 'system', true, 30, at, at
     from project, generate_series(1, $2) n, lateral (select now() + $4::interval + n * interval '10 seconds' as at) t
     where id = $1`,
    [server.projectId, count, prefix, after],
  );

describe("Among 100,000 secrets that are rotated by schedule", () => {
  before(async function () {
    this.timeout(60_000);
    await addSecrets(100_000, "1 hour", "secret ");
    await server.sql(
      `insert into gateway_task (organization_id, type, status, config_id, secret_id, max_attempts, requested_by, finished_at)
       select organization_id, 'rotate_secret', 'succeeded', rotation_config_id, id, 1, 'system', now() from secret`,
    );
    await server.sql(
      `insert into rotation_config (id, organization_id, secret_id, last_status)
       select rotation_config_id, organization_id, id, 'succeeded' from secret`,
    );
    for (const table of ["secret", "gateway_task", "rotation_config"]) await server.sql(`vacuum (analyze) ${table}`);
  });

  it("a round finds in a few steps that nothing is due", async () => {
    expectFewPages(await plansOfRound());
  });

  it("a round finds in a few steps what is due, and touches nothing else", async () => {
    const ids = await server.sql("select id from secret order by random() limit 10");
    await makeDue(server, ...ids.map(({ id }) => id));

    expectFewPages(await plansOfRound(), mostPages + ids.length * mostPagesEach);
  });

  it("a thousand that fail cost nothing until they are tried again", async function () {
    this.timeout(60_000);
    await addSecrets(1000, "2 minutes", "failing ");
    await server.sql("update secret set next_rotation = now() - interval '1 day' where key like 'failing %'");
    await server.sql(
      `insert into rotation_config (id, organization_id, secret_id, last_status, consecutive_failures)
       select rotation_config_id, organization_id, id, 'failed', 7 from secret where key like 'failing %'`,
    );

    expectFewPages(await plansOfRound());
  });
});
