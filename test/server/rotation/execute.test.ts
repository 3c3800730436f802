import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { RotationConfigService } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { gatewayTopic } from "../../../src/server/gateways/task-streams.ts";
import type { Client } from "../../harness/client.ts";
import { foreignOperator } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { byCommand, Configurations } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const executionKeys = [
  "config_id",
  "secret_id",
  "task_id",
  "status",
  "environment",
  "gateway_id",
  "version",
  "created_at",
];
const execute = (configId: string, body: unknown = {}, by = operator) => configurations.execute(configId, by, body);
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const newEnvironment = () => `environment-${randomUUID().slice(0, 8)}`;

describe("ExecuteRotationConfig of what the server rotates", () => {
  it("finishes in the request, though rotation is not enabled", async () => {
    const secret = await server.secret();
    const config = await configurations.get(secret.id);

    const { status, body } = await execute(config.id, { change_reason: "leaked on a screen" });

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(executionKeys);
    expect(body).to.include({
      config_id: config.id,
      secret_id: secret.id,
      status: "succeeded",
      environment: null,
      gateway_id: null,
      version: 2,
    });
    const { value, version } = await read(secret.id);
    expect(version).to.equal(2);
    expect(value).to.match(/^[A-Za-z0-9]{32}$/);
  });

  it("makes a version of type rotation by who asked, and begins the interval anew", async () => {
    const { secret, config } = await configurations.of({ enabled: true, interval: "10d" });
    await server.sql("update secret set next_rotation = now() - interval '1 day' where id = $1", [secret.id]);

    await execute(config.id, { reason: "because" });

    const { body: versions } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}/versions`);
    expect(versions.data[0]).to.include({
      version: 2,
      change_type: "rotation",
      created_by: operator.id,
      change_reason: "because",
    });
    const after = await configurations.get(secret.id);
    expect(after).to.include({ last_status: "succeeded", last_error: null, consecutive_failures: 0 });
    expect(after.last_rotated).to.equal(versions.data[0].created_at);
    expect(Date.parse(after.next_rotation) - Date.parse(after.last_rotated)).to.equal(10 * 86_400_000);
    expect(after.updated_at).to.equal(config.updated_at);
  });

  it("leaves a task that has ended, and two audit events", async () => {
    const { secret, config } = await configurations.of();

    const { body } = await execute(config.id, { reason: "because" });

    const [task, ...others] = await configurations.tasks(config.id);
    expect(others).to.deep.equal([]);
    expect(task).to.include({
      id: body.task_id,
      gateway_id: null,
      environment: null,
      type: "rotate_secret",
      status: "succeeded",
      config_id: config.id,
      secret_id: secret.id,
      attempt: 1,
      created_at: body.created_at,
      error: null,
    });
    const events = await server.sql(
      `select action, actor_name, resource_type, resource_name, project_id, reason, details from audit_event
       where resource_id = $1 and action in ('rotation_config.execute', 'secret.rotate') order by action`,
      [secret.id],
    );
    const about = {
      actor_name: "operator",
      resource_type: "secret",
      resource_name: secret.key,
      project_id: server.projectId,
      reason: "because",
    };
    expect(events.map(({ details, ...event }) => ({ ...event, details: JSON.parse(details) }))).to.deep.equal([
      { action: "rotation_config.execute", ...about, details: { config_id: config.id, task_id: body.task_id } },
      {
        action: "secret.rotate",
        ...about,
        details: { version: 2, config_id: config.id, task_id: body.task_id, requested_by: operator.id },
      },
    ]);
  });

  it("is refused while a gateway rotates the secret still", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    const { secret, config } = await configurations.of(byCommand, { environment });
    await execute(config.id);
    await gateway.claim();
    await configurations.put(secret.id, { provider: "generated_value" });

    const { status, body } = await execute(config.id);
    const update = await configurations.put(secret.id, { rotate_immediately: true });

    expect([status, body.error.message]).to.deep.equal([409, "another rotation of this secret is running"]);
    expect([update.status, update.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    expect((await read(secret.id)).version).to.equal(1);
  });

  it("by several at once makes as many versions, one after the other", async () => {
    const { secret, config } = await configurations.of();

    const answers = await Promise.all(Array.from({ length: 8 }, () => execute(config.id)));

    expect(answers.map(({ status }) => status)).to.deep.equal(Array(8).fill(200));
    const versions = answers.map(({ body }) => body.version).toSorted((a, b) => a - b);
    expect(versions).to.deep.equal([2, 3, 4, 5, 6, 7, 8, 9]);
    expect((await read(secret.id)).version).to.equal(9);
  });
});

describe("ExecuteRotationConfig of what a gateway rotates", () => {
  it("queues a task for the active gateway, and waits for nothing", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    const { secret, config } = await configurations.of(byCommand, { environment });

    const { status, body } = await execute(config.id, { change_reason: "because" });

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(executionKeys);
    expect(body).to.include({
      config_id: config.id,
      secret_id: secret.id,
      status: "pending",
      environment,
      gateway_id: gateway.id,
      version: null,
    });
    const [task] = await configurations.tasks(config.id);
    expect(task).to.include({ id: body.task_id, status: "pending", gateway_id: gateway.id, environment, attempt: 1 });
    expect(task.created_at).to.equal(body.created_at);
    expect(await configurations.get(secret.id)).to.include({ last_status: "running", last_rotated: null });
    expect((await read(secret.id)).version).to.equal(1);
  });

  it("queues it for the next one when no gateway is active", async () => {
    const environment = newEnvironment();
    const { config } = await configurations.of(byCommand, { environment });

    const { body } = await execute(config.id);
    const gateway = await TestGateway.register(server, { environment });
    const assignment = await gateway.claim();

    expect(body).to.include({ status: "pending", environment, gateway_id: null });
    expect(assignment?.taskId).to.equal(body.task_id);
  });

  it("wakes the gateway", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    const { config } = await configurations.of(byCommand, { environment });
    let wakes = 0;
    const stop = server.server.core.wakes.on(gatewayTopic(gateway.id), () => (wakes += 1));

    await execute(config.id);
    stop();

    expect(wakes).to.be.above(0);
  });

  it("is refused while another one has not ended, whether pending or running", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    const { secret, config } = await configurations.of(byCommand, { environment });
    await execute(config.id);

    const pending = await execute(config.id);
    const updated = await configurations.put(secret.id, { interval: 5, rotate_immediately: true });
    await gateway.claim();
    const running = await execute(config.id);

    for (const { status, body } of [pending, updated, running]) {
      expect([status, body.error.code, body.error.message]).to.deep.equal([
        409,
        "RESOURCE_CONFLICT",
        "another rotation of this secret is running",
      ]);
    }
    expect((await configurations.get(secret.id)).interval_days).to.equal(null);
    expect(await configurations.tasks(config.id)).to.have.length(1);
  });

  it("by many at once queues one, however they ask", async () => {
    const environment = newEnvironment();
    await TestGateway.register(server, { environment });
    for (let round = 0; round < 5; round += 1) {
      const { secret, config } = await configurations.of(byCommand, { environment });

      const answers = await Promise.all([
        ...Array.from({ length: 5 }, () => execute(config.id)),
        ...Array.from({ length: 3 }, () => configurations.put(secret.id, { rotate_immediately: true })),
      ]);

      const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
      expect(statuses).to.deep.equal([200, ...Array(7).fill(409)]);
      expect(await configurations.tasks(config.id)).to.have.length(1);
    }
  });

  it("against changes of the configuration leaves what is consistent, and nobody hangs", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    for (let round = 0; round < 10; round += 1) {
      const { secret, config } = await configurations.of(byCommand, { environment });

      const answers = await Promise.all([
        execute(config.id),
        configurations.put(secret.id, { provider: "generated_value" }),
        configurations.put(secret.id, { ...byCommand, rotate_immediately: true }),
        server.admin.rest("PUT", `/api/v1/secrets/${secret.id}`, { value: "by hand" }),
      ]);

      for (const { status, body } of answers) expect([200, 409], JSON.stringify(body)).to.include(status);
      const tasks = await configurations.tasks(config.id);
      const queued = answers.filter(({ body }) => body.status === "pending" || body.last_status === "running");
      expect(tasks.filter(({ status }: { status: string }) => status === "pending")).to.have.length.at.most(1);
      if (queued.length > 0) expect(tasks).to.not.deep.equal([]);
      while ((await gateway.claim()) !== undefined);
    }
  });

  it("is what rotate_immediately does", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    const secret = await server.secret({ environment });

    const { status, body } = await configurations.put(secret.id, { ...byCommand, rotate_immediately: true });
    const assignment = await gateway.claim();

    expect(status).to.equal(200);
    expect(body).to.include({ provider: "gateway", last_status: "running" });
    expect(assignment).to.include({ secretId: secret.id, driver: "command" });
    const events = await server.sql("select action from audit_event where resource_id = $1 order by action", [
      secret.id,
    ]);
    expect(events.map(({ action }) => action)).to.deep.equal([
      "rotation_config.execute",
      "rotation_config.update",
      "secret.create",
    ]);
  });
});

describe("ExecuteRotationConfig", () => {
  it("answers 404 for what is not there, not active, or another organization's", async () => {
    const [archived, deleted, expired, ours] = await Promise.all(
      [0, 1, 2, 3].map(async () => (await configurations.of(byCommand, { environment: "production" })).config),
    );
    await server.admin.rest("POST", `/api/v1/secrets/${archived.secret_id}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${deleted.secret_id}`);
    await server.sql("update secret set expires_at = now() where id = $1", [expired.secret_id]);
    const stranger = await foreignOperator(server);

    for (const id of [archived.id, deleted.id, expired.id, randomUUID(), ours.secret_id, "nonsense"]) {
      const { status, body } = await execute(id);
      const tasks = await server.admin.rest("GET", `/api/v1/rotation/configs/${id}/tasks`);

      expect([status, body.error.code], id).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
      expect(tasks.status, id).to.equal(404);
    }
    expect((await execute(ours.id, {}, stranger)).status).to.equal(404);
    expect(await server.sql("select from gateway_task where environment = 'production'")).to.deep.equal([]);
  });

  it("takes the role gateway:admin itself, which no permission replaces", async () => {
    const { config } = await configurations.of();
    const admin = await server.as("only-admin", ["admin"]);

    const { status, body } = await execute(config.id, {}, admin);

    expect([status, body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
    expect(await server.auditTrail()).to.include("only-admin rotation_config.execute denied");
  });

  it("refuses a reason of more than 1000 characters", async () => {
    const { config } = await configurations.of();

    const { status, body } = await execute(config.id, { change_reason: "r".repeat(1001) });

    expect([status, body.error.details[0].field]).to.deep.equal([400, "change_reason"]);
  });

  it("does it once for an Idempotency-Key that comes twice", async () => {
    const { secret, config } = await configurations.of();
    const once = () =>
      operator.rest("POST", `/api/v1/rotation/configs/${config.id}/execute`, {}, { "idempotency-key": secret.id });

    const [first, second] = [await once(), await once()];

    expect(second.body).to.deep.equal(first.body);
    expect((await read(secret.id)).version).to.equal(2);
  });

  it("is the same over gRPC", async () => {
    const { config } = await configurations.of(byCommand, { environment: newEnvironment() });
    const grpc = operator.grpc(RotationConfigService);
    const call = () => grpc.executeRotationConfig({ id: config.id }, operator.metadata());

    const { status, gatewayId, version } = await call();
    const refused = await refusalOf(call());
    grpc.close();

    expect({ status, gatewayId, version }).to.deep.equal({
      status: "pending",
      gatewayId: undefined,
      version: undefined,
    });
    expect(refused).to.equal("RESOURCE_CONFLICT: another rotation of this secret is running");
  });
});
