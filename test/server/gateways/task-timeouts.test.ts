import { expect } from "chai";
import pg from "pg";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { endOverdueTasks } from "../../../src/server/gateways/task-routing.ts";
import { until } from "../../faults/own-engines.ts";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import {
  failOver,
  gatewayCore,
  gatewaySecret,
  pair,
  queueCheck,
  recorded,
  rotate,
  taskOf,
  timeOut,
  valueOf,
} from "./rotations.ts";

const server = useServer({ TASK_TIMEOUT_SECONDS: "20", GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const makeOverdue = (taskIds: readonly string[]) =>
  server.sql("update gateway_task set deadline_at = now() - interval '1 second' where id = any($1)", [taskIds]);

const retriesOf = (taskId: string) =>
  server.sql("select status, gateway_id, attempt from gateway_task where retry_of = $1", [taskId]);

describe("A task that runs for too long", () => {
  it("is ended by the server by itself, and given out anew with the same value", async () => {
    const { environment, primary } = await pair(server);
    const secret = await gatewaySecret(server, environment);
    const taskId = await rotate(operator, secret);
    const task = (await primary.claim()) as Assignment;
    const watch = primary.watch();
    await watch.next();

    await makeOverdue([taskId]);
    const told = await watch.next();
    const again = (await primary.claim()) as Assignment;

    expect(told?.kind).to.deep.include({ case: "tasksWaiting" });
    expect(await taskOf(operator, primary, taskId)).to.include({ status: "timed_out", error: "timed out after 20 s" });
    expect(again).to.include({ attempt: 2, value: task.value, secretId: secret.id });
    expect((await taskOf(operator, primary, again.taskId))?.retry_of).to.equal(taskId);
    expect((await recorded(server, taskId)).at(-1)).to.deep.equal({
      action: "task.timeout",
      outcome: "success",
      actor_type: "system",
      name: null,
      reason: null,
      details: {
        type: "rotate_secret",
        config_id: secret.configId,
        secret_id: secret.id,
        attempt: 1,
        gateway_id: primary.id,
        retry_id: again.taskId,
      },
    });
    watch.cancel();
  });

  it("for the third time has failed for good, and the next rotation has a fresh value", async () => {
    const { environment, primary } = await pair(server);
    const secret = await gatewaySecret(server, environment);
    await rotate(operator, secret);
    const tried: Assignment[] = [];

    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const task = (await primary.claim()) as Assignment;
      tried.push(task);
      await timeOut(server, task.taskId);
    }
    const none = await primary.claim();
    const { body: config } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}/rotation-config`);
    await rotate(operator, secret);
    const fresh = (await primary.claim()) as Assignment;

    expect(tried.map(({ attempt, value }) => [attempt, value])).to.deep.equal(
      [1, 2, 3].map((attempt) => [attempt, tried[0]?.value]),
    );
    expect(none).to.equal(undefined);
    expect(config).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(config.last_error).to.include({ code: "timed_out", message: "timed out after 20 s" });
    expect(fresh.attempt).to.equal(1);
    expect(fresh.value).not.to.equal(tried[0]?.value);
    expect(await valueOf(server, secret)).to.deep.equal({ value: "v1", version: 1 });
  });

  it("is given to the gateway that is active by then, or waits for one", async () => {
    const made = await pair(server);
    const { environment, primary, dr } = made;
    const secret = await gatewaySecret(server, environment);
    const taskId = await rotate(operator, secret);
    await primary.claim();
    await failOver(operator, made);
    const [retry] = await retriesOf(taskId);
    const onDr = (await dr.claim()) as Assignment;

    await timeOut(server, onDr.taskId);
    await operator.rest("POST", `/api/v1/admin/gateways/${dr.id}/deactivate`, {});

    expect(retry).to.deep.equal({ status: "pending", gateway_id: dr.id, attempt: 2 });
    expect(await retriesOf(onDr.taskId)).to.deep.equal([{ status: "pending", gateway_id: null, attempt: 3 }]);
  });

  it("is not tried again when it is a check, and counts as one that does not work", async () => {
    const { environment, dr } = await pair(server);
    const check = await queueCheck(server, dr, await gatewaySecret(server, environment));
    await dr.claim();

    await timeOut(server, check);

    expect(await retriesOf(check)).to.deep.equal([]);
    expect((await taskOf(operator, dr, check))?.status).to.equal("timed_out");
    const { body: health } = await operator.rest("GET", "/api/v1/admin/gateway-health");
    const { readiness } = health.environments.find((each: { environment: string }) => each.environment === environment);
    expect(readiness.failures).to.have.length(1);
    expect(readiness.failures[0]).to.include({ gateway_id: dr.id, error: "timed out after 20 s" });
  });

  it("ends alone: what else runs in its environment still has its time", async () => {
    const { environment, primary } = await pair(server);
    const [late, other] = [
      await rotate(operator, await gatewaySecret(server, environment)),
      await rotate(operator, await gatewaySecret(server, environment)),
    ];
    for (const _ of [late, other]) await primary.claim();

    await timeOut(server, late);

    const statuses = [await taskOf(operator, primary, late), await taskOf(operator, primary, other)];
    expect(statuses.map((task) => task?.status)).to.deep.equal(["timed_out", "running"]);
  });

  it("ends once, however many look for it at the same time", async () => {
    const { environment, primary } = await pair(server);
    const taskIds: string[] = [];
    for (let each = 0; each < 10; each += 1)
      taskIds.push(await rotate(operator, await gatewaySecret(server, environment)));
    for (const _ of taskIds) await primary.claim();
    await makeOverdue(taskIds);

    await Promise.all(Array.from({ length: 6 }, () => endOverdueTasks(gatewayCore(server))));

    await until(async () => {
      const rows = await server.sql("select 1 from gateway_task where id = any($1) and status = 'running'", [taskIds]);
      return rows.length === 0;
    });
    for (const taskId of taskIds) {
      expect(await retriesOf(taskId)).to.have.length(1);
      const timeouts = (await recorded(server, taskId)).filter(({ action }) => action === "task.timeout");
      expect(timeouts).to.have.length(1);
    }
  });

  it("ends although another environment is being failed over and cannot be looked at", async () => {
    const [held, free] = [await pair(server), await pair(server)];
    const tasks: string[] = [];
    for (const { environment, primary } of [held, free]) {
      tasks.push(await rotate(operator, await gatewaySecret(server, environment)));
      await primary.claim();
    }
    const failingOver = new pg.Client(server.databaseUrl);
    await failingOver.connect();
    await failingOver.query("begin");
    await failingOver.query("select from environment_lock where environment = $1 for update", [held.environment]);

    await makeOverdue(tasks);
    await endOverdueTasks(gatewayCore(server));
    await until(async () => (await retriesOf(tasks[1] as string)).length === 1);
    const before = await retriesOf(tasks[0] as string);
    await failingOver.end();

    expect(before).to.deep.equal([]);
    await until(async () => (await retriesOf(tasks[0] as string)).length === 1);
  });
});
