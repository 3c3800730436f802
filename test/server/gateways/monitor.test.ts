import { expect } from "chai";
import { lookAfterGateways } from "../../../src/server/gateways/monitor.ts";
import { failSilent } from "../../../src/server/gateways/silence.ts";
import { until } from "../../faults/own-engines.ts";
import { Client } from "../../harness/client.ts";
import { FailoverPair, gatewayCoreOf, monitorRound } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { withOpenTransaction } from "./open-transaction.ts";

describe("The gateway monitor", () => {
  const server = useServer();
  let operator: Client;
  before(async () => {
    operator = await server.as("operator", ["gateway:admin"]);
  });
  const newPair = () => FailoverPair.register(server, operator);

  it("fails a primary that was silent for three times two minutes, and takes the lock from it", async () => {
    const pair = await newPair();
    await pair.primary.fallSilent(359);
    await monitorRound(server);
    const before = await pair.record(pair.primary);
    await pair.primary.fallSilent(2);
    await monitorRound(server);

    const after = await pair.record(pair.primary);
    expect(before).to.include({ activation_status: "active", consecutive_failures: 2, holds_lock: true });
    expect(after).to.include({ activation_status: "failed", consecutive_failures: 3, holds_lock: false });
    expect(await pair.statuses(pair.dr)).to.deep.equal(["standby"]);
  });

  it("counts anew after a heartbeat", async () => {
    const pair = await newPair();
    await pair.primary.fallSilent(250);
    await pair.primary.heartbeat();
    await pair.primary.fallSilent(250);
    await monitorRound(server);
    const heard = await pair.record(pair.primary);
    await pair.primary.fallSilent(250);
    await monitorRound(server);

    expect(heard).to.include({ activation_status: "active", consecutive_failures: 2 });
    expect(await pair.record(pair.primary)).to.include({ activation_status: "failed", consecutive_failures: 4 });
  });

  it("fails a primary that stands by, one that is deactivated, and a DR gateway that stands by or is active", async () => {
    const [standby, deactivated, failedOver] = [await newPair(), await newPair(), await newPair()];
    await standby.failOver();
    await standby.retire(standby.primary);
    const primary = await standby.another("primary");
    await deactivated.deactivate(deactivated.primary);
    await failedOver.failOver();

    for (const gateway of [primary, deactivated.primary, deactivated.dr, failedOver.dr]) await gateway.fallSilent();
    await monitorRound(server);

    expect(await standby.statuses(primary, standby.dr)).to.deep.equal(["failed", "active"]);
    expect(await deactivated.statuses(deactivated.primary, deactivated.dr)).to.deep.equal(["failed", "failed"]);
    expect(await failedOver.statuses(failedOver.primary, failedOver.dr)).to.deep.equal(["failed", "failed"]);
    expect(await failedOver.record(failedOver.dr)).to.include({ holds_lock: false });
  });

  it("records each failure as done by the system, once", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);
    await monitorRound(server);

    const events = await pair.events("gateway.fail");

    expect(events).to.have.length(1);
    expect(events[0]).to.deep.include({
      outcome: "success",
      actor_type: "system",
      resource_type: "gateway",
      resource_id: pair.primary.id,
      resource_name: pair.primary.name,
    });
    expect(events[0].details).to.include({
      role: "primary",
      before: "active",
      after: "failed",
      consecutive_failures: 3,
      tasks_requeued: 0,
    });
  });

  it("leaves a retired gateway alone", async () => {
    const pair = await newPair();
    await pair.retire(pair.dr);
    await pair.dr.fallSilent();

    await monitorRound(server);

    expect(await pair.events("gateway.fail")).to.deep.equal([]);
  });

  it("fails the gateways of other environments while one cannot be had, which follows", async () => {
    const [held, free] = [await newPair(), await newPair()];
    const both = async () => [...(await held.statuses(held.primary)), ...(await free.statuses(free.primary))];

    const during = await withOpenTransaction(server, async (session) => {
      await session.query("select 1 from environment_lock where environment = $1 for update", [held.environment]);
      await Promise.all([held.primary.fallSilent(), free.primary.fallSilent()]);
      await monitorRound(server);
      return both();
    });
    await monitorRound(server);

    expect(during).to.deep.equal(["active", "failed"]);
    expect(await both()).to.deep.equal(["failed", "failed"]);
  });

  it("has a round on one replica at a time", async () => {
    const core = gatewayCoreOf(server);
    await monitorRound(server);
    const soon = await lookAfterGateways(core);

    // Unless the round that goes by itself was faster.
    let rounds: boolean[] = [];
    while (!rounds.some(Boolean)) {
      await server.sql("update gateway_monitor set last_run = now() - interval '5 seconds'");
      rounds = await Promise.all(Array.from({ length: 8 }, () => lookAfterGateways(core)));
    }

    expect(soon).to.equal(false);
    expect(rounds.filter(Boolean)).to.have.length(1);
  });

  it("goes on though the database's clock was set back", async () => {
    await server.sql("update gateway_monitor set last_run = now() + interval '1 hour'");

    await lookAfterGateways(gatewayCoreOf(server));

    const [{ age }] = await server.sql("select extract(epoch from now() - last_run)::int as age from gateway_monitor");
    expect(age).to.be.within(0, 60);
  });

  it("counts the silence of all from now on when the clock was set back, and lets nobody be heard of later than now", async () => {
    const pair = await newPair();
    await server.sql(
      `with monitor as (update gateway_monitor set last_run = now() + interval '1 hour')
       update gateway set last_heartbeat = now() + interval '1 hour', silent_since = now() + interval '1 hour'`,
    );
    await lookAfterGateways(gatewayCoreOf(server));

    await pair.primary.fallSilent();
    await pair.dr.heartbeat();
    await monitorRound(server);
    const { status } = await pair.activateDr();

    expect(status).to.equal(200);
  });

  it("judges silence at a time at which gateways could be heard, however late it comes to it", async () => {
    const pair = await newPair();
    const [{ organizationId, then }] = await server.sql(
      `select organization_id as "organizationId", (now() - interval '1 minute')::text as then from gateway`,
    );

    const statuses = await withOpenTransaction(server, async (session) => {
      // No round goes by itself.
      await session.query("select 1 from gateway_monitor for update");
      await pair.primary.fallSilent(400);
      await failSilent(gatewayCoreOf(server), { organizationId, environment: pair.environment }, then);
      return pair.statuses(pair.primary);
    });

    expect(statuses).to.deep.equal(["active"]);
  });
});

describe("While all replicas are away", () => {
  const server = useServer();

  it("no gateway fails, and afterwards each has its whole time again", async () => {
    const operator = await server.as("operator", ["gateway:admin"]);
    const pair = await FailoverPair.register(server, operator);
    const beating = await TestGateway.register(server, { environment: pair.environment, role: "dr-standby" });
    await pair.primary.fallSilent(100);
    await server.server.stop(500);
    await server.sql(
      `with monitor as (update gateway_monitor set last_run = last_run - interval '10 minutes')
       update gateway set last_heartbeat = last_heartbeat - interval '10 minutes', silent_since = silent_since - interval '10 minutes'`,
    );

    server.server = await server.startReplica();
    const again = new Client(server.url, operator.token);
    await beating.at(urlOf(server.server)).heartbeat();
    await monitorRound(server);

    const { body } = await again.rest("GET", "/api/v1/admin/gateways");
    const counted = body.map((gateway: Record<string, unknown>) => [
      gateway["role"],
      gateway["activation_status"],
      gateway["consecutive_failures"],
    ]);
    expect(counted).to.deep.equal([
      ["primary", "active", 0],
      ["dr-standby", "standby", 0],
      ["dr-standby", "standby", 0],
    ]);
    const [{ silent }] = await server.sql(
      "select extract(epoch from now() - silent_since)::int as silent from gateway where role = 'primary'",
    );
    // Without what had passed since the last round, which is at most five seconds.
    expect(silent).to.be.within(95, 300);
  });
});

describe("When more gateways could not be heard than one statement takes", () => {
  const server = useServer();

  it("that time counts for none of them", async () => {
    const pair = await FailoverPair.register(server, server.admin);
    await server.sql(
      `insert into gateway (organization_id, name, environment, role, instance_id, silent_since)
       select organization_id, 'gateway ' || n, 'another', 'dr-standby', gen_random_uuid(), now() - interval '10 minutes'
       from gateway, generate_series(1, 5001) n where id = $1`,
      [pair.primary.id],
    );
    await server.sql("update gateway_monitor set last_run = now() - interval '10 minutes'");

    await monitorRound(server);

    const failed = await server.sql("select from gateway where activation_status = 'failed'");
    expect(failed).to.deep.equal([]);
  });
});

describe("The gateway monitor of a running server", () => {
  const server = useServer({ HEARTBEAT_TIMEOUT_SECONDS: "1" });

  it("fails a silent gateway by itself, and leaves one that talks", async () => {
    const operator = await server.as("operator", ["gateway:admin"]);
    const pair = await FailoverPair.register(server, operator);
    const heart = setInterval(() => void pair.dr.heartbeat().catch(() => {}), 200);

    await until(async () => (await pair.statuses(pair.primary))[0] === "failed", 15_000);
    clearInterval(heart);

    const { consecutive_failures: failures } = await pair.record(pair.primary);
    expect(failures).to.be.at.least(3);
    expect(await pair.events("gateway.fail")).to.have.length(1);
  });

  it("goes on after the database was away", async () => {
    const operator = await server.as("other-operator", ["gateway:admin"]);
    const pair = await FailoverPair.register(server, operator);
    await server.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );

    await until(async () => (await pair.statuses(pair.primary).catch(() => [""]))[0] === "failed", 15_000);
  });
});
