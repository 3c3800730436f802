import { expect } from "chai";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { type Plan, pagesTouched, plansOf, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { gatewaySecret, rotate } from "./rotations.ts";

const server = useServer();

/** What a statement may touch: reading all that there is would be thousands. */
const mostPages = 60;

/** How PostgreSQL runs what the server sends about tasks. */
async function plansDuring(work: () => Promise<unknown>): Promise<Plan[]> {
  const statements = await statementsDuring(server, work);
  return plansOf(
    server.databaseUrl,
    statements.filter(({ text }) => text.includes("gateway_task") && !text.includes("into audit_event")),
  );
}

function expectFewPages(plans: readonly Plan[]): void {
  expect(plans).not.to.have.length(0);
  for (const { statement, root } of plans) {
    const ways = stepsOf(root).filter((step) => step["Relation Name"] === "gateway_task");
    for (const way of ways) expect(way["Node Type"], statement.text).not.to.equal("Seq Scan");
    expect(pagesTouched(root), statement.text).to.be.at.most(mostPages);
  }
}

describe("After 100,000 tasks", () => {
  let primary: TestGateway;
  let environment: string;

  before(async function () {
    this.timeout(60_000);
    primary = await TestGateway.register(server);
    ({ environment } = primary);
    await TestGateway.register(server, { environment, role: "dr-standby" });
    // Half of them are of the gateway that asks.
    await server.sql(
      `insert into gateway_task (organization_id, environment, gateway_id, type, status, config_id, secret_id, max_attempts,
         requested_by, finished_at)
       select organization_id, environment, id, 'rotate_secret', 'succeeded', gen_random_uuid(), gen_random_uuid(), 3,
         'system', now() from gateway, generate_series(1, $1)`,
      [50_000],
    );
    await server.sql("vacuum (analyze) gateway_task");
  });

  it("a gateway claims and completes one in a few steps", async () => {
    await rotate(server.admin, await gatewaySecret(server, environment));

    const plans = await plansDuring(async () => {
      const assignment = await primary.claim();
      await primary.complete(assignment as NonNullable<typeof assignment>);
    });

    expectFewPages(plans);
  });

  it("a claim finds in a few steps that nothing waits", async () => {
    expectFewPages(await plansDuring(() => primary.claim()));
  });

  it("a stream finds in a few steps that nothing waits", async () => {
    expectFewPages(await plansDuring(() => primary.watch().next()));
  });

  it("a failover finds what it has to move in a few steps", async () => {
    await rotate(server.admin, await gatewaySecret(server, environment));
    const { status } = await server.admin.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, {
      mark_failed: true,
    });
    expect(status).to.equal(200);

    const plans = await plansDuring(async () => {
      const answer = await server.admin.rest("POST", `/api/v1/admin/failover/${environment}/activate-dr`, {});
      expect(answer.status).to.equal(200);
    });

    expectFewPages(plans);
  });
});
