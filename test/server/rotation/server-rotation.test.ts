import { expect } from "chai";
import { RotationConfigService } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { endOverdueAttempts } from "../../../src/server/rotation/overdue-attempts.ts";
import { ServerTasks } from "../../../src/server/rotation/server-tasks.ts";
import { until } from "../../faults/own-engines.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { monitorRound } from "../../harness/failover.ts";
import { Receiver } from "../../harness/receiver.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { answers, hangs } from "../../harness/trouble.ts";
import { refusalOf } from "../agents/refusal.ts";
import { withOpenTransaction } from "../gateways/open-transaction.ts";
import { Configurations, pushTo } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
let operator: Client;
let hook: Receiver;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});
beforeEach(async () => {
  hook = await Receiver.start();
});
afterEach(() => hook.stop());

const rotate = configurations.rotate.bind(configurations);
const execute = (configId: string, body: unknown = {}) => configurations.execute(configId, operator, body);
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const pushing = (fields: Record<string, unknown> = {}) =>
  configurations.of({ ...pushTo(hook.url()), ...fields }, { value: "first", environment: "production" });
const events = () => hook.requests.map(({ body }) => body.event);
const unchanged = "the current value is unchanged";
const unknown = "whether the target has the new value is not known, it will be tried again";

/** What is kept of an attempt that failed. */
async function expectFailed({ status, body }: Answer, secretId: string, message: string): Promise<void> {
  expect([status, body.error.code, body.error.message]).to.deep.equal([503, "SERVICE_UNAVAILABLE", message]);
  const config = await configurations.get(secretId);
  const [task] = await configurations.tasks(config.id);
  expect(body.error.details).to.deep.equal([{ field: "task_id", message: task.id }]);
  expect(task.status).to.equal("failed");
  expect(config).to.include({ last_status: "failed", consecutive_failures: 1 });
  expect(message).to.include(config.last_error.message).and.to.include(task.error);
  expect(await read(secretId)).to.include({ version: 1, value: "first" });
}

/** Lets the gateways' monitor have a round, and waits until the task does not stand any more as it did. */
async function roundEnds(taskId: string): Promise<void> {
  await until(async () => {
    await monitorRound(server);
    const [{ status }] = await server.sql("select status from gateway_task where id = $1", [taskId]);
    return status !== "pending";
  });
}

/** Lets the requests of an attempt wait at the target. */
function holdAll() {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  hook.behave(async () => {
    arrived.resolve();
    await released.promise;
    return undefined;
  });
  return { arrived: arrived.promise, release: () => released.resolve() };
}

describe("RotateSecret of what the server brings to a webhook", () => {
  it("has the target use the new value, makes sure of it, and only then makes it the current one", async () => {
    const { secret, config } = await pushing({ settings: undefined, enabled: true, interval: 5 });
    const meanwhile: string[] = [];
    hook.behave(async () => {
      meanwhile.push((await read(secret.id)).value);
      return undefined;
    });

    const { status, body } = await rotate(secret.id, { reason: "because" });

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("id", "version", "rotated_at", "next_rotation");
    expect(body).to.include({ id: secret.id, version: 2 });
    expect(Date.parse(body.next_rotation) - Date.parse(body.rotated_at)).to.equal(5 * 86_400_000);
    const { value } = await read(secret.id);
    const [task] = await configurations.tasks(config.id);
    const about = { secret_id: secret.id, key: secret.key, environment: "production", task_id: task.id, attempt: 1 };
    expect(hook.requests.map((request) => request.body)).to.deep.equal([
      { event: "rotation.apply", ...about, value },
      { event: "rotation.verify", ...about, value },
    ]);
    expect(meanwhile).to.deep.equal(["first", "first"]);
    expect(task).to.include({ status: "succeeded", environment: null, gateway_id: null, attempt: 1, max_attempts: 1 });
    const { body: versions } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}/versions`);
    expect(versions.data[0]).to.include({
      version: 2,
      created_at: body.rotated_at,
      change_type: "rotation",
      created_by: server.admin.id,
      change_reason: "because",
    });
    const [event] = await server.sql(
      "select actor_type, reason, details from audit_event where resource_id = $1 and action = 'secret.rotate'",
      [secret.id],
    );
    expect(event).to.include({ actor_type: "system", reason: "because" });
    expect(JSON.parse(event.details)).to.deep.equal({
      version: 2,
      config_id: config.id,
      task_id: task.id,
      requested_by: server.admin.id,
    });
  });

  it("makes the value by the settings, and takes the target's where that makes it", async () => {
    const { secret: digits } = await pushing({ provider_settings: { url: hook.url(), length: 12, charset: "digits" } });
    const { secret: minted } = await pushing({ provider_settings: { url: hook.url("/mint"), mode: "mint" } });
    hook.behave(({ path }) => (path === "/mint" ? answers(200, '{"value": "minted ☂"}') : undefined));

    const statuses = [(await rotate(digits.id)).status, (await rotate(minted.id)).status];

    expect(statuses).to.deep.equal([200, 200]);
    expect((await read(digits.id)).value).to.match(/^\d{12}$/);
    expect((await read(minted.id)).value).to.equal("minted ☂");
    expect(hook.requests.filter(({ path }) => path === "/mint").map(({ body }) => body.value)).to.deep.equal([
      undefined,
    ]);
  });

  it("refused by the target changes nothing, and says so", async () => {
    const { secret } = await pushing();
    hook.behave(() => answers(422));

    const answer = await rotate(secret.id);

    await expectFailed(answer, secret.id, `rotation failed: the webhook answered 422; ${unchanged}`);
    expect(answer.headers.get("retry-after")).to.match(/^\d+$/);
    expect(events()).to.deep.equal(["rotation.apply"]);
  });

  it("of a target that cannot be reached changes nothing, and says so", async () => {
    const { secret } = await pushing();
    await hook.stop();

    const { status, body } = await rotate(secret.id);
    hook = await Receiver.start();

    expect(status).to.equal(503);
    expect(body.error.message).to.match(new RegExp(`^rotation failed: the webhook: .*; ${unchanged}$`));
    expect((await configurations.get(secret.id)).last_error.code).to.equal("unreachable");
  });

  it("that leaves nobody knowing what the target has says that it will be tried again", async () => {
    const { secret: broken } = await pushing();
    hook.behave(() => answers(500));
    await expectFailed(await rotate(broken.id), broken.id, `rotation failed: the webhook answered 500; ${unknown}`);

    const { secret: unverified } = await pushing();
    hook.behave(({ body }) => (body.event === "rotation.verify" ? answers(403) : undefined));
    await expectFailed(
      await rotate(unverified.id),
      unverified.id,
      `rotation failed: the value was applied, but is not in use: the webhook answered 403; ${unknown}`,
    );
  });

  it("is refused while it runs already, however it is asked for", async () => {
    const { secret, config } = await pushing();
    const { arrived, release } = holdAll();
    const first = rotate(secret.id);
    await arrived;

    const refused = [
      await rotate(secret.id),
      await execute(config.id),
      await configurations.put(secret.id, { rotate_immediately: true }),
    ];
    release();

    for (const { status, body } of refused) {
      expect([status, body.error.message]).to.deep.equal([409, "another rotation of this secret is running"]);
    }
    expect((await first).status).to.equal(200);
    expect(events()).to.deep.equal(["rotation.apply", "rotation.verify"]);
  });

  it("goes on when the caller goes away", async () => {
    const { secret, config } = await pushing();
    const { arrived, release } = holdAll();
    const caller = new AbortController();
    const { url, token } = server.admin;
    const request = { method: "POST", headers: { authorization: `Bearer ${token}` }, signal: caller.signal };
    const abandoned = fetch(`${url}/api/v1/secrets/${secret.id}/rotate`, request).catch(() => {});
    await arrived;

    caller.abort();
    await abandoned;
    release();
    await until(async () => (await configurations.tasks(config.id))[0].status === "succeeded");

    expect((await read(secret.id)).version).to.equal(2);
  });

  it("is waited for by a server that stops", async () => {
    const { secret } = await pushing();
    const { arrived, release } = holdAll();
    const replica = await server.startReplica();
    const first = rotate(secret.id, {}, new Client(urlOf(replica), server.admin.token));
    await arrived;

    const stopped = replica.stop();
    release();

    expect((await first).body.version).to.equal(2);
    await stopped;
    expect((await read(secret.id)).version).to.equal(2);
  });

  it("counts also when the secret was archived meanwhile: the target has the value", async () => {
    const { secret } = await pushing();
    const { arrived, release } = holdAll();
    const first = rotate(secret.id);
    await arrived;

    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/archive`);
    release();

    expect((await first).body.version).to.equal(2);
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/restore`);
    expect((await read(secret.id)).value).to.equal(hook.requests[0]?.body.value);
  });

  it("is of a secret that is not there any more when that was deleted for good meanwhile", async () => {
    const { secret } = await pushing();
    const { arrived, release } = holdAll();
    const first = rotate(secret.id);
    await arrived;

    await server.admin.rest("DELETE", `/api/v1/secrets/${secret.id}/permanent`);
    release();

    const { status, body } = await first;
    expect([status, body.error?.code]).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
  });

  it("counts also when the secret is rotated by other means from now on", async () => {
    for (const other of [{ provider: "generated_value" }, pushTo(hook.url("/elsewhere"))]) {
      const { secret } = await pushing();
      const { arrived, release } = holdAll();
      const first = rotate(secret.id);
      await arrived;

      await configurations.put(secret.id, other);
      release();

      expect((await first).body.version).to.equal(2);
      expect((await read(secret.id)).value).to.equal(hook.requests.at(-1)?.body.value);
    }
  });

  it("is done once for an Idempotency-Key that comes again, also while it runs, and ends the same", async () => {
    const { secret } = await pushing();
    const { arrived, release } = holdAll();
    const once = () =>
      server.admin.rest("POST", `/api/v1/secrets/${secret.id}/rotate`, {}, { "idempotency-key": secret.id });
    const first = once();
    await arrived;
    const second = once();
    release();
    const bodies = [(await first).body, (await second).body];
    await rotate(secret.id);
    const third = await once();

    expect(bodies[1]).to.deep.equal(bodies[0]);
    expect(third.headers.get("idempotency-replayed")).to.equal("true");
    expect(third.body).to.include({ version: 2, rotated_at: bodies[0].rotated_at });
    expect((await read(secret.id)).version).to.equal(3);
  });

  it("that failed fails the same for an Idempotency-Key that comes again, also when it has succeeded since", async () => {
    const { secret, config } = await pushing();
    const once = () =>
      server.admin.rest("POST", `/api/v1/secrets/${secret.id}/rotate`, {}, { "idempotency-key": secret.id });
    hook.behave(() => answers(500));
    const first = await once();
    hook.behave();
    await rotate(secret.id);

    const second = await once();

    expect(second.status).to.equal(503);
    expect({ ...second.body.error, request_id: "" }).to.deep.equal({ ...first.body.error, request_id: "" });
    expect(await configurations.tasks(config.id)).to.have.length(2);
  });

  it("is the same over gRPC", async () => {
    const { secret } = await pushing();
    const grpc = server.admin.grpc(RotationConfigService);
    const call = () => grpc.rotateSecret({ id: secret.id }, server.admin.metadata());

    const { version, taskId } = await call();
    hook.behave(() => answers(422));
    const refused = await refusalOf(call());
    grpc.close();

    expect([version, taskId]).to.deep.equal([2, undefined]);
    expect(refused).to.equal(`SERVICE_UNAVAILABLE: rotation failed: the webhook answered 422; ${unchanged}`);
  });
});

describe("ExecuteRotationConfig of what the server brings to a webhook", () => {
  it("finishes in the request", async () => {
    const { secret, config } = await pushing();

    const { status, body } = await execute(config.id, { reason: "because" });

    expect(status).to.equal(200);
    const [task] = await configurations.tasks(config.id);
    expect(body).to.deep.equal({
      config_id: config.id,
      secret_id: secret.id,
      task_id: task.id,
      status: "succeeded",
      environment: null,
      gateway_id: null,
      version: 2,
      created_at: task.created_at,
    });
    expect((await read(secret.id)).value).to.equal(hook.requests[0]?.body.value);
  });

  it("fails as rotate does", async () => {
    const { secret, config } = await pushing();
    hook.behave(() => answers(422));

    const answer = await execute(config.id);

    await expectFailed(answer, secret.id, `rotation failed: the webhook answered 422; ${unchanged}`);
  });

  it("is what rotate_immediately begins, which waits for nothing", async () => {
    const secret = await server.secret();
    const { arrived, release } = holdAll();

    const { status, body } = await configurations.put(secret.id, { ...pushTo(hook.url()), rotate_immediately: true });
    await arrived;
    const running = await configurations.get(secret.id);
    release();
    await until(async () => (await configurations.get(secret.id)).last_status === "succeeded");

    expect([status, body.last_status, running.last_status]).to.deep.equal([200, "running", "running"]);
    expect((await read(secret.id)).version).to.equal(2);
  });
});

describe("An attempt of the server", () => {
  it("that takes longer than it may ends as timed out, and is told as that", async () => {
    const replica = await server.startReplica({ TASK_TIMEOUT_SECONDS: "1" });
    const { secret } = await pushing();
    hook.behave(() => hangs({ done: true }));

    const answer = await rotate(secret.id, {}, new Client(urlOf(replica), server.admin.token));

    expect(answer.body.error.message).to.equal(`rotation failed: timed out after 1 s; ${unknown}`);
    expect(await configurations.get(secret.id)).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect((await configurations.get(secret.id)).last_error.code).to.equal("timed_out");
  });

  it("that reports after it was ended changes nothing, and is recorded as late", async () => {
    const { secret, config } = await pushing();
    const { arrived, release } = holdAll();
    const first = rotate(secret.id);
    await arrived;
    await server.sql("update gateway_task set deadline_at = now() - interval '1 second' where config_id = $1", [
      config.id,
    ]);
    await endOverdueAttempts(server.server.core);

    const answer = await first;
    release();
    const lateReports = () =>
      server.sql(
        "select actor_type, outcome, details from audit_event where action = 'task.late_report' and resource_id = $1",
        [answer.body.error.details[0].message],
      );
    await until(async () => (await lateReports()).length > 0);

    expect(answer.body.error.message).to.match(/^rotation failed: timed out after 30 s; whether/);
    const [late] = await lateReports();
    expect(late).to.include({ actor_type: "system", outcome: "failure" });
    expect(JSON.parse(late.details)).to.include({ config_id: config.id, reported: "succeeded" });
    expect(await read(secret.id)).to.include({ version: 1, value: "first" });
    const again = await rotate(secret.id);
    expect(again.body.version).to.equal(2);
    expect(new Set(hook.requests.map(({ body }) => body.value)).size).to.equal(1);
  });

  it("that cannot be written down at once is not lost: only the target knows what it has made", async () => {
    const { secret } = await pushing({ provider_settings: { url: hook.url(), mode: "mint" } });
    const { status } = await withOpenTransaction(server, async (session) => {
      hook.behave(async () => {
        await session.query("select from secret where id = $1 for update", [secret.id]);
        return answers(200, '{"value": "minted"}');
      });
      const first = rotate(secret.id);
      await until(() => server.log.includes("the end of a rotation could not be written yet"));
      await session.query("rollback");
      return first;
    });

    expect(status).to.equal(200);
    expect(await read(secret.id)).to.include({ version: 2, value: "minted" });
    expect(hook.requests).to.have.length(1);
  });

  it("that cannot be read fails, and leaves the target alone", async () => {
    const { secret } = await pushing();
    const { secret: other } = await pushing({ credentials: { signing_secret: "s" } });
    await server.sql(
      "update rotation_config set credentials = (select credentials from rotation_config where secret_id = $1) where secret_id = $2",
      [other.id, secret.id],
    );

    const answer = await rotate(secret.id);

    await expectFailed(answer, secret.id, `rotation failed: what it takes cannot be read; ${unchanged}`);
    expect(hook.requests).to.deep.equal([]);
  });

  it("that is about nothing any more is cancelled, whoever comes by first", async () => {
    const statuses: string[] = [];
    for (const comeBy of [
      (taskId: string) => new ServerTasks(server.server.core).run(taskId),
      (taskId: string) => roundEnds(taskId),
    ]) {
      const { secret } = await pushing();
      const [{ id: taskId }] = await server.sql(
        `insert into gateway_task (organization_id, type, config_id, secret_id, max_attempts, requested_by)
         select organization_id, 'rotate_secret', rotation_config_id, id, 1, 'system' from secret where id = $1
         returning id`,
        [secret.id],
      );
      await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/archive`);

      await comeBy(taskId);

      const [task] = await server.sql("select status, claimed_at from gateway_task where id = $1", [taskId]);
      statuses.push(task.status);
      expect(task.claimed_at).to.equal(null);
      expect(await server.auditTrail()).to.include("system task.cancel success");
    }

    expect(statuses).to.deep.equal(["cancelled", "cancelled"]);
    expect(hook.requests).to.deep.equal([]);
  });

  it("that waits for its turn is not cancelled by those who look for tasks about nothing", async () => {
    const { secret } = await pushing();
    const { arrived, release } = holdAll();
    const first = rotate(secret.id);
    await arrived;
    const [{ id: taskId }] = await server.sql(
      `insert into gateway_task (organization_id, type, config_id, secret_id, max_attempts, requested_by)
       select organization_id, 'rotate_secret', rotation_config_id, id, 1, 'system' from secret where id = $1
       returning id`,
      [(await pushing()).secret.id],
    );

    await monitorRound(server);
    release();

    expect((await first).status).to.equal(200);
    const [{ status }] = await server.sql("select status from gateway_task where id = $1", [taskId]);
    expect(status).to.equal("pending");
  });

  it("begins when it is its turn: at a host few at a time, while others go ahead", async () => {
    const made = [];
    for (let index = 0; index < 7; index += 1) made.push(await pushing());
    const other = await Receiver.start();
    const { secret: elsewhere } = await pushing({ provider_settings: { url: other.url() } });
    const { arrived, release } = holdAll();

    const all = made.map(({ secret }) => rotate(secret.id));
    await arrived;
    const quick = await rotate(elsewhere.id);
    release();
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    await other.stop();

    expect(quick.status).to.equal(200);
    expect(statuses).to.deep.equal(Array(7).fill(200));
    expect(hook.mostAtOnce).to.be.at.most(4);
  });

  it("is ended where the server is stopped and the target does not answer, and is tried again", async function () {
    this.timeout(30_000);
    const replica = await server.startReplica();
    const { secret } = await pushing();
    hook.behave(() => hangs({ done: false }));
    void rotate(secret.id, {}, new Client(urlOf(replica), server.admin.token)).catch(() => {});
    await hook.received(1);

    await replica.stop(100);

    const [kept] = await server.sql("select last_status, unresolved from rotation_config where secret_id = $1", [
      secret.id,
    ]);
    expect(kept).to.deep.equal({ last_status: "failed", unresolved: true });
  });
});
