import { expect } from "chai";
import { endOverdueAttempts } from "../../../src/server/rotation/overdue-attempts.ts";
import { until } from "../../faults/own-engines.ts";
import { Receiver } from "../../harness/receiver.ts";
import { useServer } from "../../harness/server.ts";
import { hangs } from "../../harness/trouble.ts";
import { withOpenTransaction } from "../gateways/open-transaction.ts";
import { recorded } from "../gateways/rotations.ts";
import { Configurations } from "./configurations.ts";
import { makeDue, rotationRounds } from "./rounds.ts";

const server = useServer({ TASK_TIMEOUT_SECONDS: "20" });
const configurations = new Configurations(server);
let receiver: Receiver;
before(async () => {
  receiver = await Receiver.start();
});
after(() => receiver.stop());

/** A secret whose rotation a process had begun that has died. */
async function abandoned(fields: Record<string, unknown> = {}) {
  const { secret, config } = await configurations.of({
    provider: "webhook",
    provider_settings: { url: receiver.url() },
    ...fields,
  });
  const [task] = await server.sql(
    `insert into gateway_task (organization_id, type, status, config_id, secret_id, max_attempts, requested_by, claim_id,
       claimed_at, deadline_at)
     select organization_id, 'rotate_secret', 'running', $2, id, 1, 'system', gen_random_uuid(), now(), now()
     from secret where id = $1 returning id`,
    [secret.id, config.id],
  );
  return { secretId: secret.id as string, configId: config.id as string, taskId: task.id as string };
}

const end = () => endOverdueAttempts(server.server.core);
const statusOf = async (taskId: string): Promise<string> =>
  (await server.sql("select status from gateway_task where id = $1", [taskId]))[0].status;

describe("An attempt of the server that has run out of time", () => {
  it("is ended, and nobody claims to know what its target has", async () => {
    const { secretId, configId, taskId } = await abandoned();

    await end();

    const [task] = await configurations.tasks(configId);
    expect(task).to.include({ id: taskId, status: "timed_out", error: "timed out after 20 s" });
    const config = await configurations.get(secretId);
    expect(config).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(config.last_error).to.include({ code: "timed_out", message: "timed out after 20 s" });
    expect((await recorded(server, taskId)).at(-1)).to.deep.equal({
      action: "task.timeout",
      outcome: "success",
      actor_type: "system",
      name: null,
      reason: null,
      details: {
        type: "rotate_secret",
        config_id: configId,
        secret_id: secretId,
        attempt: 1,
        gateway_id: null,
        retry_id: null,
      },
    });
  });

  it("is followed by another one at once, also when nobody has enabled rotation, until one succeeds", async () => {
    const { secretId, configId } = await abandoned();

    await rotationRounds(server.server);

    await until(async () => (await configurations.get(secretId)).last_status === "succeeded");
    const tasks = await configurations.tasks(configId);
    expect(tasks.map(({ status }: { status: string }) => status)).to.deep.equal(["succeeded", "timed_out"]);
  });

  it("is followed by no other when the secret was left or is gone, and by one once it is restored", async () => {
    const [archived, gone] = [await abandoned(), await abandoned()];
    await server.admin.rest("POST", `/api/v1/secrets/${archived.secretId}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${gone.secretId}/permanent`);

    await rotationRounds(server.server);

    for (const { taskId, configId } of [archived, gone]) {
      expect(await statusOf(taskId)).to.equal("timed_out");
      expect(await server.sql("select from gateway_task where config_id = $1", [configId])).to.have.length(1);
    }
    await server.admin.rest("POST", `/api/v1/secrets/${archived.secretId}/restore`);
    await rotationRounds(server.server);
    await until(async () => (await configurations.get(archived.secretId)).last_status === "succeeded");
  });

  it("makes nobody doubt a secret that is brought nowhere any more", async () => {
    const { secretId } = await abandoned();
    await configurations.put(secretId, { provider: "generated_value" });

    await rotationRounds(server.server);

    const { body } = await server.admin.rest("GET", `/api/v1/secrets/${secretId}`);
    expect(body).to.include({ version: 1, value: "v1" });
  });

  it("ends once, however many look for it at the same time", async () => {
    const all = [];
    for (let index = 0; index < 10; index += 1) all.push(await abandoned());

    await Promise.all(Array.from({ length: 6 }, end));
    await end();

    for (const { secretId, taskId } of all) {
      expect(await configurations.get(secretId)).to.include({ consecutive_failures: 1 });
      expect(await recorded(server, taskId)).to.have.length(1);
    }
  });

  it("is left alone while its result is written", async () => {
    const [held, free] = [await abandoned(), await abandoned()];

    await withOpenTransaction(server, async (session) => {
      await session.query("select from gateway_task where id = $1 for update", [held.taskId]);
      await end();
      expect(await statusOf(free.taskId)).to.equal("timed_out");
    });

    expect(await statusOf(held.taskId)).to.equal("running");
    await end();
    expect(await statusOf(held.taskId)).to.equal("timed_out");
  });

  it("keeps no other from ending, when it cannot be ended since somebody changes its secret", async () => {
    const [held, free] = [await abandoned(), await abandoned()];

    await withOpenTransaction(server, async (session) => {
      await session.query("select from secret where id = $1 for update", [held.secretId]);
      await end();
      expect([await statusOf(held.taskId), await statusOf(free.taskId)]).to.deep.equal(["running", "timed_out"]);
    });
    await end();

    expect(await statusOf(held.taskId)).to.equal("timed_out");
  });

  it("is none whose time is not over, nor one of a gateway", async () => {
    const [early, gateways] = [await abandoned(), await abandoned()];
    await server.sql("update gateway_task set deadline_at = now() + interval '20 seconds' where id = $1", [
      early.taskId,
    ]);
    await server.sql("update gateway_task set environment = 'production' where id = $1", [gateways.taskId]);

    await end();

    expect([await statusOf(early.taskId), await statusOf(gateways.taskId)]).to.deep.equal(["running", "running"]);
  });
});

describe("A rotation that is due at a target that never answers", () => {
  const at = (url: string) => ({
    enabled: true,
    provider: "webhook",
    provider_settings: { url, timeout_seconds: 30 },
  });
  const isRotated = (secretId: string) =>
    until(async () => (await configurations.get(secretId)).last_status === "succeeded");

  /** Some targets that never answer, and so many secrets at each, which were due a minute ago. */
  async function stuck(targets: number, secretsAtEach: number) {
    const silent = await Promise.all(Array.from({ length: targets }, () => Receiver.start()));
    const ids: string[] = [];
    for (const each of silent) {
      each.behave(() => hangs({ done: false }));
      for (let index = 0; index < secretsAtEach; index += 1)
        ids.push((await configurations.of(at(each.url()))).secret.id);
    }
    await makeDue(server, ...ids);
    return { ids, end: () => Promise.all(silent.map((each) => each.stop())) };
  }

  it("keeps none at other targets waiting", async () => {
    const { ids, end: endSilence } = await stuck(1, 20);
    const { secret } = await configurations.of(at(receiver.url()));
    await server.sql("update secret set next_rotation = now(), rotation_due_at = now() where id = $1", [secret.id]);

    await rotationRounds(server.server);
    await isRotated(secret.id);

    const versions = await server.sql("select distinct version from secret where id = any($1)", [ids]);
    expect(versions).to.deep.equal([{ version: 1 }]);
    await endSilence();
  });

  it("keeps none waiting that has not failed, once it has: however many there are of them, at however many targets", async () => {
    const { ids, end: endSilence } = await stuck(6, 4);
    await server.sql(
      "update rotation_config set consecutive_failures = 1, last_status = 'failed' where secret_id = any($1)",
      [ids],
    );
    const { secret } = await configurations.of(at(receiver.url()));
    await server.sql("update secret set next_rotation = now(), rotation_due_at = now() where id = $1", [secret.id]);

    await rotationRounds(server.server);
    await isRotated(secret.id);

    const versions = await server.sql("select distinct version from secret where id = any($1)", [ids]);
    expect(versions).to.deep.equal([{ version: 1 }]);
    await endSilence();
  });
});
