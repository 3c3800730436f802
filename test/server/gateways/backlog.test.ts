import { expect } from "chai";
import { FailoverPair } from "../../harness/failover.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });

describe("A backlog of rotations", function () {
  this.timeout(60_000);

  /** Queues a rotation of each of so many new secrets, which nobody begins. */
  async function queue({ environment, primary }: FailoverPair, count: number): Promise<void> {
    await server.sql(
      `with made as (
         insert into secret (organization_id, project_id, key, created_by)
         select organization_id, $1, 'secret ' || n, 'system' from gateway, generate_series(1, $2) n where id = $3
         returning id, organization_id, rotation_config_id),
       configured as (
         insert into rotation_config (id, organization_id, secret_id, provider, provider_settings, gateway_environment)
         select rotation_config_id, organization_id, id, 'gateway', '{"driver":"generated_value","driver_settings":{}}', $4
         from made)
       insert into gateway_task
         (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts, requested_by)
       select organization_id, $4, $3, 'rotate_secret', rotation_config_id, id, 3, 'system' from made`,
      [server.projectId, count, primary.id, environment],
    );
  }

  it("goes with its environment whole, also when it is more than one statement can move", async () => {
    const count = 11_000;
    const pair = await FailoverPair.register(server, server.admin);
    await queue(pair, count);

    await pair.fail(pair.primary);
    const whileDown = await pair.health();
    await pair.dr.heartbeat();
    const { status } = await pair.activateDr();

    expect(status).to.equal(200);
    expect(whileDown.tasks).to.deep.equal({ pending: count, running: 0 });
    const holders = await server.sql(
      "select gateway_id, count(*)::int as tasks from gateway_task where environment = $1 group by gateway_id",
      [pair.environment],
    );
    expect(holders).to.deep.equal([{ gateway_id: pair.dr.id, tasks: count }]);
    const moves = await pair.events("gateway.fail", "gateway.activate_dr");
    expect(moves.map(({ action, details }) => [action, details.tasks_moved])).to.deep.equal([
      ["gateway.fail", count],
      ["gateway.activate_dr", count],
    ]);
  });
});
