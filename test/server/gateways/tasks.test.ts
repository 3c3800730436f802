import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Server } from "../../../src/server/server.ts";
import type { Client } from "../../harness/client.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { failOver, gatewaySecret, type Pair, pair, queueCheck, rotate, taskOf, timeOut, valueOf } from "./rotations.ts";

const server = useServer({ LOG_LEVEL: "trace", GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
let replica: Server;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
  replica = await server.startReplica();
});

const failback = ({ environment }: Pair) => operator.rest("POST", `/api/v1/admin/failover/${environment}/failback`, {});
const deactivate = (gateway: TestGateway) =>
  operator.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, {});
const execute = (configId: string) => operator.rest("POST", `/api/v1/rotation/configs/${configId}/execute`, {});

describe("A rotation by a gateway", () => {
  it("is asked for on one replica, done on another, and recorded step by step", async () => {
    const { environment, primary } = await pair(server);
    const secret = await gatewaySecret(server, environment);
    const remote = primary.at(urlOf(replica));
    const watch = remote.watch();
    await watch.next();

    const { status, body } = await execute(secret.configId);
    const told = await watch.next();
    const task = (await remote.claim()) as Assignment;
    await remote.complete(task);

    expect(status).to.equal(200);
    expect(body).to.include({ status: "pending", environment, gateway_id: primary.id, version: null });
    expect(told?.kind).to.deep.include({ case: "tasksWaiting" });
    expect(task.taskId).to.equal(body.task_id);
    expect(await valueOf(server, secret)).to.deep.equal({ value: task.value, version: 2 });
    const actions = await server.sql(
      `select action from audit_event where resource_id = any($1) and action not like 'secret.read%'
       order by occurred_at, id`,
      [[secret.configId, secret.id, task.taskId]],
    );
    expect(actions.map(({ action }) => action).slice(-4)).to.have.members([
      "rotation_config.execute",
      "task.claim",
      "task.complete",
      "secret.rotate",
    ]);
    watch.cancel();
  });

  it("waits while no gateway is active, for the first one that comes into service", async () => {
    const environment = `empty-${Date.now()}`;
    const secret = await gatewaySecret(server, environment);
    const { body } = await execute(secret.configId);
    const dr = await TestGateway.register(server, { environment, role: "dr-standby" });
    const byDr = await dr.claim();

    const primary = await TestGateway.register(server, { environment });
    const task = await primary.claim();

    expect(body).to.include({ status: "pending", gateway_id: null });
    expect(byDr).to.equal(undefined);
    expect(task?.taskId).to.equal(body.task_id);
  });

  it("is lost to no gateway that comes into service at the very moment when it is asked for", async () => {
    for (let round = 0; round < 15; round += 1) {
      const environment = `new-${round}-${Date.now()}`;
      const secret = await gatewaySecret(server, environment);
      const primary = await TestGateway.prepare(server, { environment });

      const [{ body }] = await Promise.all([execute(secret.configId), primary.register()]);

      expect((await primary.claim())?.taskId).to.equal(body.task_id);
    }
  });

  it("is one at a time for each secret", async () => {
    const { environment, primary } = await pair(server);
    const secret = await gatewaySecret(server, environment);

    const answers = await Promise.all(Array.from({ length: 6 }, () => execute(secret.configId)));
    const [task, none] = [await primary.claim(), await primary.claim()];
    const whileRunning = await execute(secret.configId);
    await primary.complete(task as Assignment);
    const afterwards = await execute(secret.configId);

    expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
    expect(answers.filter(({ status }) => status === 409)).to.have.length(5);
    expect(none).to.equal(undefined);
    expect(whileRunning.status).to.equal(409);
    expect(whileRunning.body.error.message).to.equal("another rotation of this secret is running");
    expect(afterwards.status).to.equal(200);
  });

  it("goes with the environment: what waits moves, and what runs is tried again with the same value", async () => {
    const made = await pair(server);
    const { environment, primary, dr } = made;
    const [running, waiting] = [await gatewaySecret(server, environment), await gatewaySecret(server, environment)];
    const runningId = await rotate(operator, running);
    const first = (await primary.claim()) as Assignment;
    const waitingId = await rotate(operator, waiting);

    await failOver(operator, made);
    const onDr = [(await dr.claim()) as Assignment, (await dr.claim()) as Assignment];
    const [moved, retried] = onDr;
    await dr.complete(moved as Assignment);
    await failback(made);
    await primary.heartbeat();
    const last = (await primary.claim()) as Assignment;
    await primary.complete(last);

    expect(moved).to.include({ taskId: waitingId, attempt: 1 });
    expect(retried).to.include({ secretId: running.id, attempt: 2, value: first.value });
    expect(last).to.include({ secretId: running.id, attempt: 3, value: first.value });
    expect(await taskOf(operator, primary, runningId)).to.include({
      status: "timed_out",
      error: "the gateway was fenced before it reported",
    });
    expect(await valueOf(server, running)).to.deep.equal({ value: first.value, version: 2 });
    expect((await valueOf(server, waiting)).version).to.equal(2);
    const details = await server.sql(
      `select action, details::jsonb from audit_event where resource_id = any($1)
         and action in ('gateway.deactivate', 'gateway.activate_dr', 'gateway.failback') order by occurred_at`,
      [[primary.id, dr.id]],
    );
    expect(details.map(({ action, details: d }) => [action, d.tasks_moved, d.tasks_requeued])).to.deep.equal([
      ["gateway.deactivate", 1, 1],
      ["gateway.activate_dr", 2, 0],
      ["gateway.failback", 0, 1],
    ]);
  });

  it("whose last attempt is fenced has failed", async () => {
    const made = await pair(server);
    const { environment, primary } = made;
    const secret = await gatewaySecret(server, environment);
    await rotate(operator, secret);
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      await timeOut(server, ((await primary.claim()) as Assignment).taskId);
    }
    const { attempt } = (await primary.claim()) as Assignment;

    await deactivate(primary);

    expect(attempt).to.equal(3);
    const { body: config } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}/rotation-config`);
    expect(config).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(config.last_error).to.include({ code: "timed_out", message: "the gateway was fenced before it reported" });
    expect(await server.sql("select 1 from gateway_task where secret_id = $1 and finished_at is null", [secret.id])).to
      .be.empty;
  });

  it("of which the gateway has still to check something takes that from it once it is active", async () => {
    const made = await pair(server);
    const { environment, dr } = made;
    const secret = await gatewaySecret(server, environment);
    const check = await queueCheck(server, dr, secret);

    await failOver(operator, made);

    expect(await taskOf(operator, dr, check)).to.include({ status: "cancelled", claimed_at: null });
  });

  it("leaves no value in its records, the audit log, or any log", async function () {
    this.timeout(60_000);
    const { environment, primary } = await pair(server);
    const marked = (name: string) => `${name}-0123456789abcdef-${Math.random().toString(36).slice(2)}`;
    const initial = marked("initial");
    const minted = marked("minted");
    const secret = await gatewaySecret(server, environment, { value: initial });
    await rotate(operator, secret);
    const first = (await primary.claim()) as Assignment;
    await primary.complete(first, { case: "failed", value: { message: "no route", permanent: false } });
    const second = (await primary.claim()) as Assignment;
    await primary.complete(second, { case: "succeeded", value: { value: minted } }).catch(() => {});
    await primary.complete(second);
    await primary.complete(second);

    const everything = await dump(server);

    expect(await valueOf(server, secret)).to.deep.equal({ value: first.value, version: 2 });
    for (const value of [initial, minted, first.value]) {
      for (const disguise of disguises(Buffer.from(value))) {
        expect(everything.includes(disguise), `the database has ${disguise}`).to.equal(false);
        expect(server.log.includes(disguise), `a log has ${disguise}`).to.equal(false);
      }
    }
  });
});
