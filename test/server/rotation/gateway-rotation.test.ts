import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { until } from "../../faults/own-engines.ts";
import type { Client } from "../../harness/client.ts";
import { monitorRound } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { timeOut } from "../gateways/rotations.ts";
import { byCommand, byWebhook, Configurations } from "./configurations.ts";
import { faultOf } from "./fault.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newEnvironment = () => `environment-${randomUUID().slice(0, 8)}`;
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const execute = (configId: string, body: unknown = {}) => configurations.execute(configId, operator, body);
const failed = (message: string, permanent = false) => ({ case: "failed" as const, value: { message, permanent } });
const succeeded = (value: string) => ({ case: "succeeded" as const, value: { value } });

/** A gateway that is active, and a secret that it is to rotate now. */
async function queued(fields: Record<string, unknown> = byCommand, secretFields: Record<string, unknown> = {}) {
  const environment = newEnvironment();
  const gateway = await TestGateway.register(server, { environment });
  const { secret, config } = await configurations.of(fields, { environment, value: "first", ...secretFields });
  const { body: execution } = await execute(config.id, { change_reason: "because" });
  const claim = async () => {
    const assignment = await gateway.claim();
    if (assignment === undefined) throw new Error("there is nothing to claim");
    return assignment;
  };
  return { environment, gateway, secret, config, execution, claim };
}

/** Lets the monitor have a round, and waits until none of these tasks stands any more as it did. */
async function roundEnds(status: "pending" | "running", ...taskIds: (string | undefined)[]): Promise<void> {
  await until(async () => {
    await monitorRound(server);
    const left = await server.sql("select from gateway_task where id = any($1) and status = $2", [taskIds, status]);
    return left.length === 0;
  });
}

describe("What a gateway is given to rotate a secret", () => {
  it("is a value made as the settings say, the one before, and what the driver needs", async () => {
    const { secret, environment, claim } = await queued({
      provider: "gateway",
      settings: {
        driver: "command",
        driver_settings: { command: "rotate-app", parameters: { role: "app", ports: [5432] } },
        length: 20,
        charset: "digits",
        exclude_characters: "07",
      },
      credentials: { password: "admin's", nested: { n: 1 } },
    });

    const assignment = await claim();

    expect(assignment).to.deep.include({
      type: "rotate_secret",
      secretId: secret.id,
      key: secret.key,
      environment,
      driver: "command",
      settings: { command: "rotate-app", parameters: { role: "app", ports: [5432] } },
      credentials: { password: "admin's", nested: { n: 1 } },
      previousValue: "first",
    });
    expect(assignment.value).to.match(/^[1-689]{20}$/);
    expect((await read(secret.id)).value).to.equal("first");
  });

  it("is the same value at each attempt, and another one in the next chain of attempts", async () => {
    const { gateway, config, claim } = await queued();
    const values: string[] = [];
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const assignment = await claim();
      values.push(assignment.value);
      expect(assignment.attempt).to.equal(attempt);
      if (attempt === 2) await timeOut(server, assignment.taskId);
      else await gateway.complete(assignment, failed("no"));
    }

    await execute(config.id);
    const fresh = await claim();

    expect(new Set(values).size).to.equal(1);
    expect(fresh).to.include({ attempt: 1 });
    expect(fresh.value).not.to.equal(values[0]);
  });

  it("is the same value for the gateway that takes over", async () => {
    const { environment, gateway, claim } = await queued();
    const dr = await TestGateway.register(server, { environment, role: "dr-standby" });
    const before = await claim();

    await operator.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, { mark_failed: true });
    await operator.rest("POST", `/api/v1/admin/failover/${environment}/activate-dr`, {});
    await dr.heartbeat();
    const after = await dr.claim();

    expect(after).to.include({ value: before.value, attempt: 2, previousValue: "first" });
  });

  it("is by the newest settings with the value of the first attempt", async () => {
    const { gateway, secret, claim } = await queued();
    const before = await claim();
    await configurations.put(secret.id, {
      settings: { ...byCommand.provider_settings, driver_settings: { command: "other" }, charset: "hex" },
    });
    await gateway.complete(before, failed("no"));

    const after = await claim();

    expect(after.settings).to.include({ command: "other" });
    expect(after.value).to.equal(before.value);
  });

  it("is no value where the target makes it, also when it was to be given one before", async () => {
    const { gateway, secret, claim } = await queued(byWebhook());
    const pushed = await claim();
    await configurations.put(secret.id, byWebhook({ mode: "mint" }));
    await gateway.complete(pushed, failed("no"));

    const minting = await claim();

    expect(pushed.value).to.match(/^[A-Za-z0-9]{32}$/);
    expect(minting).to.include({ driver: "webhook", value: "", previousValue: "first" });
    await gateway.complete(minting, succeeded("minted"));
    expect((await read(secret.id)).value).to.equal("minted");
  });

  it("is nothing once the secret is archived, expired, or rotated by other means", async () => {
    const endings: ((id: string) => Promise<unknown>)[] = [
      (id) => server.admin.rest("POST", `/api/v1/secrets/${id}/archive`),
      (id) => server.admin.rest("DELETE", `/api/v1/secrets/${id}`),
      (id) => server.admin.rest("DELETE", `/api/v1/secrets/${id}/permanent`),
      (id) => server.sql("update secret set expires_at = now() where id = $1", [id]),
      (id) => configurations.put(id, { provider: "generated_value" }),
      (id) => configurations.put(id, { gateway_environment: "elsewhere" }),
    ];
    for (const end of endings) {
      const { gateway, secret, execution } = await queued();

      await end(secret.id);
      const assignment = await gateway.claim();

      expect(assignment, String(end)).to.equal(undefined);
      const [task] = await server.sql("select status from gateway_task where id = $1", [execution.task_id]);
      expect(task.status, String(end)).to.equal("cancelled");
      const [kept] = await server.sql("select last_status, candidate from rotation_config where secret_id = $1", [
        secret.id,
      ]);
      if (kept !== undefined) expect(kept, String(end)).to.deep.equal({ last_status: "never", candidate: null });
    }
  });
});

describe("A rotation that a gateway has done", () => {
  it("makes the value that it was given the current one", async () => {
    const { gateway, secret, config, execution, claim } = await queued({ ...byCommand, enabled: true, interval: 5 });
    const assignment = await claim();

    await gateway.complete(assignment);

    expect(await read(secret.id)).to.include({ version: 2, value: assignment.value });
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
    expect(Date.parse(after.next_rotation) - Date.parse(after.last_rotated)).to.equal(5 * 86_400_000);
    const [event] = await server.sql(
      "select actor_type, actor_id, reason, details from audit_event where resource_id = $1 and action = 'secret.rotate'",
      [secret.id],
    );
    expect(event).to.include({ actor_type: "gateway", actor_id: gateway.client.id, reason: "because" });
    expect(JSON.parse(event.details)).to.deep.equal({
      version: 2,
      config_id: config.id,
      task_id: execution.task_id,
      requested_by: operator.id,
    });
    const [kept] = await server.sql("select candidate from rotation_config where id = $1", [config.id]);
    expect(kept.candidate).to.equal(null);
  });

  it("comes after a value that was set by hand meanwhile", async () => {
    const { gateway, secret, claim } = await queued();
    const assignment = await claim();
    await server.admin.rest("PUT", `/api/v1/secrets/${secret.id}`, { value: "by hand" });

    await gateway.complete(assignment);

    expect(await read(secret.id)).to.include({ version: 3, value: assignment.value });
    const { body: second } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}?version=2`);
    expect(second.value).to.equal("by hand");
  });

  it("and an update at the same time make two versions, one after the other", async () => {
    for (let round = 0; round < 5; round += 1) {
      const { gateway, secret, claim } = await queued();
      const assignment = await claim();

      const [, { status }] = await Promise.all([
        gateway.complete(assignment),
        server.admin.rest("PUT", `/api/v1/secrets/${secret.id}`, { value: "by hand" }),
        configurations.put(secret.id, { interval: 5 }),
      ]);

      expect(status).to.equal(200);
      expect((await read(secret.id)).version).to.equal(3);
      expect(await configurations.get(secret.id)).to.include({ interval_days: 5, last_status: "succeeded" });
    }
  });

  it("is kept also for a secret that was archived or deleted meanwhile: the target has the value", async () => {
    for (const [verb, action] of [
      ["POST", "/archive"],
      ["DELETE", ""],
    ] as const) {
      const { gateway, secret, claim } = await queued();
      const assignment = await claim();
      await server.admin.rest(verb, `/api/v1/secrets/${secret.id}${action}`);

      const { status } = await gateway.complete(assignment);
      await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/restore`);

      expect(status).to.equal("succeeded");
      expect(await read(secret.id)).to.include({ version: 2, value: assignment.value });
    }
  });

  it("is kept also when the secret is rotated by other means meanwhile", async () => {
    const { gateway, secret, claim } = await queued();
    const assignment = await claim();
    await configurations.put(secret.id, { provider: "generated_value" });

    await gateway.complete(assignment);

    expect(await read(secret.id)).to.include({ version: 2, value: assignment.value });
  });

  it("is nothing for a secret that is gone for good", async () => {
    const { gateway, secret, claim } = await queued();
    const assignment = await claim();
    await server.admin.rest("DELETE", `/api/v1/secrets/${secret.id}/permanent`);

    const { status } = await gateway.complete(assignment);

    expect(status).to.equal("succeeded");
    expect(await server.sql("select from secret_version where secret_id = $1", [secret.id])).to.deep.equal([]);
  });

  it("takes the target's value where the target makes it, and nowhere else", async () => {
    const minting = await queued(byWebhook({ mode: "mint" }));
    const pushing = await queued(byWebhook());
    const [minted, pushed] = [await minting.claim(), await pushing.claim()];

    const refusals = [
      await faultOf(minting.gateway.complete(minted)),
      await faultOf(pushing.gateway.complete(pushed, succeeded("other"))),
    ];
    const versions = [(await read(minting.secret.id)).version, (await read(pushing.secret.id)).version];
    await minting.gateway.complete(minted, succeeded("minted ☂"));
    await pushing.gateway.complete(pushed);

    expect(refusals).to.deep.equal(Array(2).fill("VALIDATION_ERROR succeeded.value"));
    expect(versions).to.deep.equal([1, 1]);
    expect((await read(minting.secret.id)).value).to.equal("minted ☂");
    expect((await read(pushing.secret.id)).value).to.equal(pushed.value);
  });
});

describe("A rotation that a gateway could not do", () => {
  it("is shown once its last attempt has failed, with how often that was so", async () => {
    const { gateway, secret, config, claim } = await queued();
    await gateway.complete(await claim(), failed("the target is away"));
    const between = await configurations.get(secret.id);
    await gateway.complete(await claim(), failed("the target is away"));
    await gateway.complete(await claim(), failed("the target is still away"));
    const first = await configurations.get(secret.id);
    await execute(config.id);
    const again = await configurations.get(secret.id);
    await gateway.complete(await claim(), failed("never", true));
    const second = await configurations.get(secret.id);

    expect(between).to.include({ last_status: "running", last_error: null, consecutive_failures: 0 });
    expect(first).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(first.last_error).to.include({ code: "refused", message: "the target is still away" });
    expect(Date.parse(first.last_error.at)).to.be.closeTo(Date.now(), 60_000);
    expect(again).to.include({ last_status: "running", consecutive_failures: 1 });
    expect(second).to.include({ last_status: "failed", consecutive_failures: 2 });
    expect(second.last_error).to.include({ code: "refused", message: "never" });
    expect(await read(secret.id)).to.include({ version: 1, value: "first" });
  });

  it("is shown as timed out when nobody reported, and forgotten by the next success", async () => {
    const { gateway, secret, config, claim } = await queued();
    for (let attempt = 1; attempt <= 3; attempt += 1) await timeOut(server, (await claim()).taskId);
    const timedOut = await configurations.get(secret.id);
    await execute(config.id);
    await gateway.complete(await claim());

    expect(timedOut).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(timedOut.last_error.code).to.equal("timed_out");
    expect(await configurations.get(secret.id)).to.include({
      last_status: "succeeded",
      last_error: null,
      consecutive_failures: 0,
    });
  });

  it("is one of many that fail at once, each for itself", async () => {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    const made = [];
    for (let index = 0; index < 5; index += 1) made.push(await configurations.of(byCommand, { environment }));
    for (const { config } of made) await execute(config.id);
    const claimed = [await gateway.claim(), await gateway.claim(), await gateway.claim()];
    await server.sql("update gateway_task set attempt = max_attempts, deadline_at = now() where id = any($1)", [
      claimed.map((assignment) => assignment?.taskId),
    ]);

    await roundEnds("running", ...claimed.map((assignment) => assignment?.taskId));

    const statuses = await Promise.all(
      made.map(async ({ secret }) => (await configurations.get(secret.id)).last_status),
    );
    expect(statuses).to.deep.equal(["failed", "failed", "failed", "running", "running"]);
  });
});

describe("A pending rotation that is about nothing any more", () => {
  const endings: [string, string, (id: string) => Promise<unknown>][] = [
    ["was archived", "the secret is not active", (id) => server.admin.rest("POST", `/api/v1/secrets/${id}/archive`)],
    ["was deleted", "the secret is not active", (id) => server.admin.rest("DELETE", `/api/v1/secrets/${id}`)],
    ["is gone", "the secret is not active", (id) => server.admin.rest("DELETE", `/api/v1/secrets/${id}/permanent`)],
    [
      "has expired",
      "the secret is not active",
      (id) => server.sql("update secret set expires_at = now() where id = $1", [id]),
    ],
    [
      "has another provider",
      "the configuration has changed",
      (id) => configurations.put(id, { provider: "generated_value" }),
    ],
    [
      "is of another environment",
      "the configuration has changed",
      (id) => configurations.put(id, { gateway_environment: "elsewhere" }),
    ],
  ];
  for (const [what, why, end] of endings) {
    it(`is cancelled by the system when the secret ${what}`, async () => {
      const { secret, execution, config } = await queued();

      await end(secret.id);
      await roundEnds("pending", execution.task_id);

      const [task] = await server.sql("select status, error, finished_at from gateway_task where id = $1", [
        execution.task_id,
      ]);
      expect(task).to.include({ status: "cancelled", error: why });
      expect(task.finished_at).not.to.equal(null);
      const [event] = await server.sql(
        "select actor_type, outcome, reason, details from audit_event where resource_id = $1 and action = 'task.cancel'",
        [execution.task_id],
      );
      expect(event).to.include({ actor_type: "system", outcome: "success", reason: why });
      expect(JSON.parse(event.details)).to.deep.equal({
        type: "rotate_secret",
        config_id: config.id,
        secret_id: secret.id,
      });
      const kept = await server.sql("select last_status from rotation_config where id = $1", [config.id]);
      expect(kept).to.deep.equal(what === "is gone" ? [] : [{ last_status: "never" }]);
    });
  }

  it("leaves its configuration as it was before: failed or succeeded", async () => {
    const good = await queued();
    await good.gateway.complete(await good.claim());
    const bad = await queued();
    await bad.gateway.complete(await bad.claim(), failed("no", true));
    for (const { config, secret } of [good, bad]) {
      const { body } = await execute(config.id);
      await configurations.put(secret.id, { gateway_environment: "elsewhere" });
      await roundEnds("pending", body.task_id);
    }

    expect(await configurations.get(good.secret.id)).to.include({ last_status: "succeeded", last_error: null });
    expect(await configurations.get(bad.secret.id)).to.include({ last_status: "failed", consecutive_failures: 1 });
  });

  it("is not one that a gateway works on, nor one whose secret is well", async () => {
    const running = await queued();
    await running.claim();
    await server.admin.rest("POST", `/api/v1/secrets/${running.secret.id}/archive`);
    const waiting = await queued();

    await monitorRound(server);

    const tasks = await server.sql("select status from gateway_task where id = any($1) order by id", [
      [running.execution.task_id, waiting.execution.task_id],
    ]);
    expect(tasks.map(({ status }) => status)).to.deep.equal(["running", "pending"]);
  });

  it("comes back with no surprise: a restored secret is rotated when somebody asks", async () => {
    const { gateway, secret, config, execution, claim } = await queued();
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/archive`);
    await roundEnds("pending", execution.task_id);
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/restore`);

    const nothing = await gateway.claim();
    const after = await configurations.get(secret.id);
    const { status } = await execute(config.id);
    await gateway.complete(await claim());

    expect(nothing).to.equal(undefined);
    expect(after).to.include({ id: config.id, provider: "gateway", last_status: "never" });
    expect(status).to.equal(200);
    expect((await read(secret.id)).version).to.equal(2);
  });
});
