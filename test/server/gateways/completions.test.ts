import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Server } from "../../../src/server/server.ts";
import type { Client } from "../../harness/client.ts";
import type { TestGateway } from "../../harness/gateway.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import {
  failOver,
  type GatewaySecret,
  gatewaySecret,
  type Pair,
  pair,
  queueCheck,
  recorded,
  rotate,
  taskOf,
  valueOf,
} from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
let replica: Server;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
  replica = await server.startReplica();
});

const failed = (permanent = false) =>
  ({ case: "failed", value: { message: "the target refused", permanent } }) as const;

/** A secret of an environment whose rotation its gateway has claimed. */
async function claimed(environment: string, gateway: TestGateway) {
  const secret = await gatewaySecret(server, environment);
  await rotate(operator, secret);
  return { secret, task: (await gateway.claim()) as Assignment };
}

const configOf = async ({ id }: GatewaySecret) =>
  (await server.admin.rest("GET", `/api/v1/secrets/${id}/rotation-config`)).body;

describe("The report of a task", () => {
  it("that was done makes the value that was given the secret's own", async () => {
    const { environment, primary } = await pair(server);
    const { secret, task } = await claimed(environment, primary);

    const answer = await primary.complete(task);

    expect(answer.status).to.equal("succeeded");
    expect(await valueOf(server, secret)).to.deep.equal({ value: task.value, version: 2 });
    const ended = await taskOf(operator, primary, task.taskId);
    expect(ended).to.include({ status: "succeeded", error: null });
    expect(ended?.finished_at).not.to.equal(null);
    expect((await recorded(server, task.taskId)).at(-1)).to.deep.equal({
      action: "task.complete",
      outcome: "success",
      actor_type: "gateway",
      name: null,
      reason: null,
      details: {
        type: "rotate_secret",
        config_id: secret.configId,
        secret_id: secret.id,
        attempt: 1,
        gateway_id: primary.id,
        status: "succeeded",
      },
    });
  });

  it("that comes again has the same answer, and no second effect", async () => {
    const { environment, primary } = await pair(server);
    const done = await claimed(environment, primary);
    const undone = await claimed(environment, primary);

    const answers = [];
    for (let time = 0; time < 3; time += 1) {
      answers.push((await primary.complete(done.task)).status);
      answers.push((await primary.complete(undone.task, failed())).status);
    }

    expect(answers).to.deep.equal(["succeeded", "failed", "succeeded", "failed", "succeeded", "failed"]);
    expect((await valueOf(server, done.secret)).version).to.equal(2);
    const [{ retries }] = await server.sql("select count(*)::int as retries from gateway_task where retry_of = $1", [
      undone.task.taskId,
    ]);
    expect(retries).to.equal(1);
    expect(await recorded(server, done.task.taskId)).to.have.length(2);
    expect(await recorded(server, undone.task.taskId)).to.have.length(2);
    const events = await server.sql("select from audit_event where action = 'task.complete' and actor_id = $1", [
      primary.client.id,
    ]);
    expect(events).to.have.length(2);
  });

  it("that comes several times at once counts once", async () => {
    const { environment, primary } = await pair(server);
    const elsewhere = primary.at(urlOf(replica));
    const { secret, task } = await claimed(environment, primary);
    const outcomes = Array.from({ length: 4 }, () => [primary.complete(task), elsewhere.complete(task, failed(true))]);

    const answers = await Promise.all(outcomes.flat());

    const [status] = new Set(answers.map((answer) => answer.status));
    expect(answers.map((answer) => answer.status)).to.deep.equal(Array.from({ length: 8 }, () => status));
    expect((await valueOf(server, secret)).version).to.equal(status === "succeeded" ? 2 : 1);
    expect((await configOf(secret)).consecutive_failures).to.equal(status === "succeeded" ? 0 : 1);
  });

  it("that failed has it tried again with the same value, and after the third time no more", async () => {
    const { environment, primary } = await pair(server);
    const { secret, task: first } = await claimed(environment, primary);

    await primary.complete(first, failed());
    const second = (await primary.claim()) as Assignment;
    await primary.complete(second, failed());
    const third = (await primary.claim()) as Assignment;
    const between = await configOf(secret);
    await primary.complete(third, failed());
    const none = await primary.claim();

    const attempts = [first, second, third];
    expect(attempts.map(({ attempt }) => attempt)).to.deep.equal([1, 2, 3]);
    expect(new Set(attempts.map(({ value }) => value)).size).to.equal(1);
    expect(none).to.equal(undefined);
    expect(between).to.include({ last_status: "running" });
    const config = await configOf(secret);
    expect(config).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(config.last_error).to.include({ code: "refused", message: "the target refused" });
    const records = await Promise.all(attempts.map(({ taskId }) => taskOf(operator, primary, taskId)));
    expect(records.map((record) => record?.retry_of)).to.deep.equal([null, first.taskId, second.taskId]);
    for (const record of records) expect(record).to.include({ status: "failed", error: "the target refused" });
    expect(await valueOf(server, secret)).to.deep.equal({ value: "v1", version: 1 });
  });

  it("that failed for good is not tried again; what is asked for later has the value that the target may have", async () => {
    const { environment, primary } = await pair(server);
    const { secret, task } = await claimed(environment, primary);

    await primary.complete(task, failed(true));
    const none = await primary.claim();
    await rotate(operator, secret);
    const later = await primary.claim();

    expect(none).to.equal(undefined);
    expect(later?.attempt).to.equal(1);
    expect(later?.value).to.equal(task.value);
    expect((await recorded(server, task.taskId)).at(-1)?.details).to.include({ permanent: true, retry_id: null });
  });

  it("of a check counts without a token, and is not tried again when it failed", async () => {
    const { environment, dr } = await pair(server);
    const [working, broken] = [await gatewaySecret(server, environment), await gatewaySecret(server, environment)];
    await queueCheck(server, dr, working);
    await queueCheck(server, dr, broken);

    const first = await dr.complete((await dr.claim()) as Assignment);
    const second = await dr.complete((await dr.claim()) as Assignment, failed());

    expect([first.status, second.status]).to.deep.equal(["succeeded", "failed"]);
    expect(await dr.claim()).to.equal(undefined);
    expect(await valueOf(server, working)).to.deep.equal({ value: "v1", version: 1 });
    expect(await configOf(broken)).to.include({ last_status: "never", consecutive_failures: 0 });
  });

  it("with another claim is refused also when the task has ended", async () => {
    const { environment, primary } = await pair(server);
    const { task } = await claimed(environment, primary);
    await primary.complete(task);

    expect(await refusalOf(primary.complete({ ...task, claimId: randomUUID() }))).to.equal(
      "RESOURCE_CONFLICT: the task has ended: it is succeeded",
    );
  });

  it("under another token than that of the environment is refused", async () => {
    const { environment, primary } = await pair(server);
    const { secret, task } = await claimed(environment, primary);
    const { id: gatewayId, instanceId, client, link } = primary;
    const report = { gatewayId, instanceId, taskId: task.taskId, claimId: task.claimId };
    const outcome = { case: "succeeded", value: {} } as const;

    for (const fencingToken of [String(BigInt(primary.token ?? 0) + 1n), "1", undefined]) {
      const given = fencingToken === undefined ? report : { ...report, fencingToken };
      expect(await refusalOf(link.completeTask({ ...given, outcome }, client.metadata()))).to.equal(
        "RESOURCE_CONFLICT: stale fencing token",
      );
    }

    expect((await valueOf(server, secret)).version).to.equal(1);
  });

  it("with another claim, of no task, or of another gateway's changes nothing", async () => {
    const [first, second] = [await pair(server), await pair(server)];
    const { secret, task } = await claimed(first.environment, first.primary);
    const report = (gateway: TestGateway, given: Partial<Assignment>) =>
      refusalOf(gateway.complete({ taskId: task.taskId, claimId: task.claimId, ...given }));

    expect(await report(first.primary, { claimId: randomUUID() })).to.equal("RESOURCE_CONFLICT: stale fencing token");
    expect(await report(first.primary, { taskId: randomUUID() })).to.equal("RESOURCE_NOT_FOUND: task not found");
    expect(await report(second.primary, {})).to.equal("RESOURCE_NOT_FOUND: task not found");
    expect((await valueOf(server, secret)).version).to.equal(1);
    expect((await taskOf(operator, first.primary, task.taskId))?.status).to.equal("running");
  });

  it("either counts or is refused, and never both, while its environment is failed over", async function () {
    this.timeout(120_000);
    const seen = new Set<string>();
    // By how much the report waits for the failover, or the failover for the report: at the edge where both are likely.
    let leadMs = 0;
    for (let round = 0; round < 40; round += 1) {
      const made: Pair = await pair(server);
      const { environment, primary, dr } = made;
      const { secret, task } = await claimed(environment, primary);
      const elsewhere = primary.at(urlOf(replica));

      const [answer] = await Promise.all([
        sleep(Math.max(0, leadMs)).then(() => refusalOf(elsewhere.complete(task))),
        sleep(Math.max(0, -leadMs)).then(() => failOver(operator, made)),
      ]);

      const { version } = await valueOf(server, secret);
      const retries = await server.sql("select gateway_id from gateway_task where retry_of = $1", [task.taskId]);
      const ended = await taskOf(operator, primary, task.taskId);
      if (answer === "ok") {
        expect([version, retries, ended?.status]).to.deep.equal([2, [], "succeeded"]);
      } else {
        expect(answer).to.equal("RESOURCE_CONFLICT: the task has ended: it is timed_out");
        expect([version, retries, ended?.status]).to.deep.equal([1, [{ gateway_id: dr.id }], "timed_out"]);
      }
      leadMs += answer === "ok" ? 1 : -1;
      seen.add(answer);
    }
    expect(seen.size, [...seen].join()).to.equal(2);
  });
});
