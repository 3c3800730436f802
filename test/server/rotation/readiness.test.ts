import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { gatewayTopic } from "../../../src/server/gateways/task-streams.ts";
import { until } from "../../faults/own-engines.ts";
import type { Client } from "../../harness/client.ts";
import { FailoverPair, foreignOperator, monitorRound } from "../../harness/failover.ts";
import type { TestGateway } from "../../harness/gateway.ts";
import { TestServer, useServer } from "../../harness/server.ts";
import { isWaitedFor, withOpenTransaction } from "../gateways/open-transaction.ts";
import { timeOut } from "../gateways/rotations.ts";
import { byCommand, Configurations } from "./configurations.ts";

const server = useServer();
const configurations = new Configurations(server);
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const failed = { case: "failed" as const, value: { message: "the command is not allowed on this gateway" } };
const isReady = { configurations: 1, ready: 1, unchecked: 0, failing: 0, failures: [] };
const isUnchecked = { configurations: 1, ready: 0, unchecked: 1, failing: 0, failures: [] };

/** An environment with a primary, a DR gateway, and as many secrets as named that its gateways rotate. */
async function environmentWith(count = 1, on = server, by = operator) {
  const pair = await FailoverPair.register(on, by);
  const { environment } = pair;
  const made = new Configurations(on);
  const configs = [];
  for (let index = 0; index < count; index += 1) {
    const { secret, config } = await made.of(byCommand, { environment, value: `value ${index}` });
    configs.push({ ...config, key: secret.key });
  }
  const readiness = async () => (await pair.health()).readiness;
  return { pair, environment, configs, readiness };
}

/** Every check that waits for a gateway, by its secret. */
async function checksOf({ id }: TestGateway): Promise<string[]> {
  const tasks = await server.sql(
    "select secret_id from gateway_task where gateway_id = $1 and type = 'verify_secret' and status = 'pending' order by id",
    [id],
  );
  return tasks.map(({ secret_id }) => secret_id);
}

/** Lets the monitor queue what is due, and the gateway do all of it. */
async function checkAll(gateway: TestGateway, outcome?: typeof failed): Promise<void> {
  await monitorRound(server);
  for (let next = await gateway.claim(); next !== undefined; next = await gateway.claim()) {
    await gateway.complete(next, outcome);
  }
}

describe("A gateway that stands by", () => {
  it("is asked whether each secret of its environment would work, by its value of now", async () => {
    const { pair, environment, configs } = await environmentWith(2);

    await monitorRound(server);
    const checks = [await pair.dr.claim(), await pair.dr.claim()];
    const nothing = await pair.dr.claim();

    expect(checks.map((check) => check?.secretId)).to.have.members(configs.map(({ secret_id }) => secret_id));
    const [first] = configs;
    expect(checks.find((check) => check?.secretId === first.secret_id)).to.deep.include({
      type: "verify_secret",
      attempt: 1,
      key: first.key,
      environment,
      driver: "command",
      settings: { command: "rotate-app", parameters: {} },
      value: "value 0",
    });
    expect(checks.map((check) => check?.previousValue)).to.deep.equal([undefined, undefined]);
    expect(nothing).to.equal(undefined);
    const [task] = (await configurations.tasks(first.id)) as Record<string, unknown>[];
    expect(task).to.include({ type: "verify_secret", max_attempts: 1, gateway_id: pair.dr.id, fencing_token: null });
  });

  it("is asked again only when an interval has passed", async () => {
    const { pair, configs } = await environmentWith();
    await checkAll(pair.dr);

    await monitorRound(server);
    const soon = await checksOf(pair.dr);
    await server.sql("update gateway_readiness set checked_at = now() - interval '1 hour' where gateway_id = $1", [
      pair.dr.id,
    ]);
    await monitorRound(server);
    const later = await checksOf(pair.dr);
    await monitorRound(server);

    expect(soon).to.deep.equal([]);
    expect(later).to.deep.equal([configs[0].secret_id]);
    expect(await checksOf(pair.dr)).to.deep.equal(later);
  });

  it("is told of it at once", async () => {
    const { pair, environment } = await environmentWith(0);
    let wakes = 0;
    const stop = server.server.core.wakes.on(gatewayTopic(pair.dr.id), () => (wakes += 1));
    await configurations.of(byCommand, { environment });

    await monitorRound(server);
    await until(async () => wakes > 0);
    stop();

    expect(await pair.dr.claim()).to.include({ type: "verify_secret" });
  });

  it("is asked for no more than a hundred at a time, the longest unchecked first", async () => {
    const { pair, environment } = await environmentWith();
    await checkAll(pair.dr);
    await server.sql(
      `with s as (
         insert into secret (organization_id, project_id, key, environment, created_by)
         select organization_id, id, 'many ' || n, $2, 'system' from project, generate_series(1, 150) n where id = $1
         returning id, organization_id, rotation_config_id)
       insert into rotation_config (id, organization_id, secret_id, provider, provider_settings, gateway_environment)
       select rotation_config_id, organization_id, id, 'gateway', '{"driver": "generated_value"}', $2 from s`,
      [server.projectId, environment],
    );
    await server.sql("update gateway_readiness set checked_at = now() - interval '1 day' where gateway_id = $1", [
      pair.dr.id,
    ]);

    await monitorRound(server);
    const first = await checksOf(pair.dr);
    await monitorRound(server);

    expect(first).to.have.length(100);
    expect(await checksOf(pair.dr)).to.deep.equal(first);
    const [{ checked }] = await server.sql(
      "select count(*)::int as checked from gateway_readiness r join gateway_task t using (config_id, gateway_id) where r.gateway_id = $1 and t.status = 'pending'",
      [pair.dr.id],
    );
    expect(checked).to.equal(0);
  });

  it("is asked nothing of secrets that are not active, or that others rotate", async () => {
    const { pair, configs } = await environmentWith(5);
    const [archived, deleted, expired, local, elsewhere] = configs.map(({ secret_id }) => secret_id);
    await server.admin.rest("POST", `/api/v1/secrets/${archived}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${deleted}`);
    await server.sql("update secret set expires_at = now() where id = $1", [expired]);
    await configurations.put(local, { provider: "generated_value" });
    await configurations.put(elsewhere, { gateway_environment: "elsewhere" });

    await monitorRound(server);

    expect(await checksOf(pair.dr)).to.deep.equal([]);
    expect(await pair.dr.claim()).to.equal(undefined);
    expect((await pair.health()).readiness).to.include({ configurations: 0, ready: 0, unchecked: 0, failing: 0 });
  });

  it("is asked nothing while it is silent or deactivated, and the active one never is", async () => {
    const silent = await environmentWith();
    const deactivated = await environmentWith();
    await silent.pair.dr.fallSilent(121);
    await deactivated.pair.deactivate(deactivated.pair.dr);
    await server.sql("delete from gateway_task where type = 'verify_secret' and gateway_id = any($1)", [
      [silent.pair.dr.id, deactivated.pair.dr.id],
    ]);

    await monitorRound(server);

    const { pair } = silent;
    for (const gateway of [pair.primary, pair.dr, deactivated.pair.primary, deactivated.pair.dr]) {
      expect(await checksOf(gateway)).to.deep.equal([]);
    }
  });

  it("is asked nothing while its environment is being failed over, and is so afterwards", async () => {
    const { pair, environment } = await environmentWith(0);

    const during = await withOpenTransaction(server, async (session) => {
      await session.query("select 1 from environment_lock where environment = $1 for update", [environment]);
      await configurations.of(byCommand, { environment });
      await monitorRound(server);
      return checksOf(pair.dr);
    });
    await monitorRound(server);

    expect(during).to.deep.equal([]);
    expect(await checksOf(pair.dr)).to.have.length(1);
  });

  it("keeps no rotation that is about nothing any more from its end when it can be asked nothing", async () => {
    const { pair, configs } = await environmentWith(2);
    const { body: execution } = await configurations.execute(configs[0].id, operator);
    await server.sql(`create function refuse() returns trigger language plpgsql as $$ begin raise 'no checks'; end $$`);
    await server.sql(`create trigger refuse before insert on gateway_task for each row when (new.type = 'verify_secret')
      execute function refuse()`);

    await server.admin.rest("DELETE", `/api/v1/secrets/${configs[0].secret_id}`);
    await monitorRound(server);

    await server.sql("drop trigger refuse on gateway_task");
    const [task] = await server.sql("select status from gateway_task where id = $1", [execution.task_id]);
    expect(task.status).to.equal("cancelled");
    expect(await checksOf(pair.dr)).to.deep.equal([]);
  });

  it("is asked nothing at all when checks are switched off", async () => {
    const quiet = new TestServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
    await quiet.start();
    try {
      const { environment } = await environmentWith(1, quiet, quiet.admin);

      await monitorRound(quiet);

      expect(await quiet.sql("select from gateway_task where environment = $1", [environment])).to.deep.equal([]);
    } finally {
      await quiet.stop();
    }
  });
});

describe("Readiness", () => {
  it("says what would work after a failover, and why not", async () => {
    const { pair, configs, readiness } = await environmentWith();
    const before = await readiness();
    await checkAll(pair.dr, failed);
    const failing = await readiness();
    await server.sql("update gateway_readiness set checked_at = now() - interval '1 hour' where gateway_id = $1", [
      pair.dr.id,
    ]);
    await checkAll(pair.dr);
    const ready = await readiness();

    expect(before).to.deep.equal(isUnchecked);
    const { failures, ...counts } = failing;
    expect(counts).to.deep.equal({ configurations: 1, ready: 0, unchecked: 0, failing: 1 });
    expect(failures).to.have.length(1);
    expect(failures[0]).to.include({
      config_id: configs[0].id,
      secret_id: configs[0].secret_id,
      gateway_id: pair.dr.id,
      error: failed.value.message,
    });
    expect(Date.parse(failures[0].checked_at)).to.be.closeTo(Date.now(), 60_000);
    expect(ready).to.deep.equal(isReady);
  });

  it("takes every gateway that stands by, and counts healthy ones only", async () => {
    const { pair, readiness } = await environmentWith();
    const second = await pair.another("dr-standby");
    await checkAll(pair.dr);
    const half = await readiness();
    await checkAll(second, failed);
    const broken = await readiness();
    await second.fallSilent(121);
    const without = await readiness();
    await pair.dr.fallSilent(121);
    const nobody = await readiness();

    expect(half).to.deep.equal(isUnchecked);
    expect(broken).to.include({ ready: 0, unchecked: 0, failing: 1 });
    expect(without).to.deep.equal(isReady);
    expect(nobody).to.deep.equal(isUnchecked);
  });

  it("of what a check found when it timed out is that", async () => {
    const { pair, readiness } = await environmentWith();
    await monitorRound(server);
    const check = await pair.dr.claim();

    await timeOut(server, check?.taskId ?? "");

    const { failing, failures } = await readiness();
    expect(failing).to.equal(1);
    expect(failures[0].error).to.match(/timed out/);
    expect(await configurations.get(check?.secretId ?? "")).to.include({
      last_status: "never",
      consecutive_failures: 0,
    });
  });

  it("is unknown again once the configuration has changed, also to a check that had begun before", async () => {
    const { pair, configs, readiness } = await environmentWith();
    const change = (command: string) =>
      configurations.put(configs[0].secret_id, { settings: { driver: "command", driver_settings: { command } } });
    await checkAll(pair.dr);
    const ready = await readiness();
    await change("other");
    const changed = await readiness();
    await monitorRound(server);
    const check = await pair.dr.claim();
    await change("another");
    if (check !== undefined) await pair.dr.complete(check);
    const late = await readiness();
    await checkAll(pair.dr);

    expect(check?.settings).to.include({ command: "other" });
    expect(ready).to.deep.equal(isReady);
    expect([changed, late]).to.deep.equal([isUnchecked, isUnchecked]);
    expect(await readiness()).to.deep.equal(isReady);
  });

  it("stays what it was when only the schedule changes, or the secret's value", async () => {
    const { pair, configs, readiness } = await environmentWith();
    await checkAll(pair.dr);

    await configurations.put(configs[0].secret_id, { enabled: true, interval: 5 });
    await server.admin.rest("PUT", `/api/v1/secrets/${configs[0].secret_id}`, { value: "new" });

    expect(await readiness()).to.deep.equal(isReady);
  });

  it("is gone with the secret, and another organization's is nobody else's", async () => {
    const { pair, configs, readiness, environment } = await environmentWith();
    await checkAll(pair.dr);
    const stranger = await foreignOperator(server);

    const { body: theirs } = await stranger.rest("GET", "/api/v1/admin/gateway-health");
    const { status } = await server.admin.rest("DELETE", `/api/v1/secrets/${configs[0].secret_id}/permanent`);

    expect(JSON.stringify(theirs)).not.to.include(environment);
    expect(status).to.equal(204);
    expect(await readiness()).to.include({ configurations: 0, ready: 0 });
    const left = await server.sql("select from gateway_readiness where config_id = $1", [configs[0].id]);
    expect(left).to.deep.equal([]);
  });

  it("is none of what is changed or deleted for good while a check ends", async () => {
    const [changed, deleted] = [await environmentWith(), await environmentWith()];
    await monitorRound(server);

    for (const [{ pair, configs }, statement] of [
      [changed, "update rotation_config set updated_at = now() where secret_id = $1"],
      [deleted, "delete from secret where id = $1"],
    ] as const) {
      const check = (await pair.dr.claim()) as Assignment;
      const completing = await withOpenTransaction(server, async (session) => {
        await session.query(statement, [configs[0].secret_id]);
        const answer = pair.dr.complete(check);
        await isWaitedFor(session);
        await session.query("commit");
        return answer;
      });
      expect(completing.status).to.equal("succeeded");
    }

    expect(await changed.readiness()).to.deep.equal(isUnchecked);
    expect(await deleted.readiness()).to.include({ configurations: 0 });
  });

  it("shows at most a hundred failures, and counts them all", async () => {
    const { pair, environment, readiness } = await environmentWith(0);
    await server.sql(
      `with s as (
         insert into secret (organization_id, project_id, key, environment, created_by)
         select organization_id, id, 'failing ' || n, $2, 'system' from project, generate_series(1, 120) n where id = $1
         returning id, organization_id, rotation_config_id),
       c as (
         insert into rotation_config (id, organization_id, secret_id, provider, provider_settings, gateway_environment)
         select rotation_config_id, organization_id, id, 'gateway', '{"driver": "generated_value"}', $2 from s
         returning id, organization_id)
       insert into gateway_readiness (gateway_id, config_id, organization_id, error)
       select $3, id, organization_id, 'no' from c`,
      [server.projectId, environment, pair.dr.id],
    );

    const { failures, failing } = await readiness();

    expect(failures).to.have.length(100);
    expect(failing).to.equal(120);
  });
});
