import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Server } from "../../../src/server/server.ts";
import type { Client } from "../../harness/client.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import {
  failOver,
  type GatewaySecret,
  gatewaySecret,
  pair,
  queueCheck,
  recorded,
  rotate,
  taskOf,
} from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
let replica: Server;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
  replica = await server.startReplica();
});

const stale = "RESOURCE_CONFLICT: stale fencing token";
const act = (gateway: TestGateway, body: object = {}) =>
  operator.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, body);

/** Secrets of an environment, each with a rotation that waits; the ids of the tasks, the oldest first. */
async function rotations(environment: string, count: number) {
  const secrets: GatewaySecret[] = [];
  const tasks: string[] = [];
  for (let each = 0; each < count; each += 1) {
    const secret = await gatewaySecret(server, environment);
    secrets.push(secret);
    tasks.push(await rotate(operator, secret));
  }
  return { secrets, tasks };
}

describe("A claim", () => {
  it("gives the oldest task, with all that it takes to do it", async () => {
    const { environment, primary } = await pair(server);
    const { secrets, tasks } = await rotations(environment, 2);

    const first = await primary.claim();
    const second = await primary.claim();

    expect([first?.taskId, second?.taskId]).to.deep.equal(tasks);
    const [secret] = secrets;
    expect(first).to.deep.include({
      type: "rotate_secret",
      attempt: 1,
      timeoutSeconds: 30,
      secretId: secret?.id,
      key: secret?.key,
      environment,
      driver: "generated_value",
      settings: {},
      credentials: {},
      previousValue: "v1",
    });
    expect(first?.claimId)
      .to.match(/^[0-9a-f-]{36}$/)
      .and.not.equal(second?.claimId);
    expect(first?.value)
      .to.match(/^[A-Za-z0-9]{32}$/)
      .and.not.equal(second?.value);
  });

  it("is written down in the task, with its deadline, and in the audit log", async () => {
    const { environment, primary } = await pair(server);
    const { secrets, tasks } = await rotations(environment, 1);
    const [taskId = ""] = tasks;

    await primary.claim();

    const task = await taskOf(operator, primary, taskId);
    expect(task).to.include({ status: "running", fencing_token: primary.token, gateway_id: primary.id });
    expect(Date.parse(String(task?.deadline_at)) - Date.parse(String(task?.claimed_at))).to.equal(30_000);
    expect(await recorded(server, taskId)).to.deep.equal([
      {
        action: "task.claim",
        outcome: "success",
        actor_type: "gateway",
        name: secrets[0]?.key,
        reason: null,
        details: {
          type: "rotate_secret",
          config_id: secrets[0]?.configId,
          secret_id: secrets[0]?.id,
          attempt: 1,
          gateway_id: primary.id,
          fencing_token: primary.token,
        },
      },
    ]);
  });

  it("gives nothing when there is nothing, and leaves nothing in the audit log", async () => {
    const { primary, dr } = await pair(server);
    const claims = () => server.sql("select id from audit_event where action = 'task.claim'");
    const before = await claims();

    const given = [await primary.claim(), await dr.claim()];

    expect(given).to.deep.equal([undefined, undefined]);
    expect(await claims()).to.deep.equal(before);
  });

  it("passes over a task that somebody else is about to take", async () => {
    const { environment, primary } = await pair(server);
    const { tasks } = await rotations(environment, 2);
    const other = new pg.Client(server.databaseUrl);
    await other.connect();
    await other.query("begin");
    await other.query("select from gateway_task where id = $1 for update", [tasks[0]]);

    const claimed = await primary.claim();
    await other.end();

    expect(claimed?.taskId).to.equal(tasks[1]);
  });

  it("gives each of 200 tasks once to 8 who claim at the same time on two replicas", async function () {
    this.timeout(60_000);
    const { environment, primary } = await pair(server);
    const queued = await Promise.all(Array.from({ length: 8 }, () => rotations(environment, 25)));
    const tasks = queued.flatMap((each) => each.tasks);
    const claimers = Array.from({ length: 8 }, (_, each) => primary.at(each % 2 === 0 ? server.url : urlOf(replica)));

    const claimed = await Promise.all(
      claimers.map(async (claimer) => {
        const own: string[] = [];
        for (let next = await claimer.claim(); next !== undefined; next = await claimer.claim()) own.push(next.taskId);
        return own;
      }),
    );

    expect(claimed.flat()).to.have.length(200).and.have.members(tasks);
    for (const own of claimed) expect(own).not.to.deep.equal([]);
  });

  it("gives rotations to the active gateway, and checks to one that stands by", async () => {
    const { environment, primary, dr } = await pair(server);
    const { secrets, tasks } = await rotations(environment, 1);
    const check = await queueCheck(server, dr, secrets[0] as GatewaySecret);
    await queueCheck(server, primary, secrets[0] as GatewaySecret);

    const byDr = [await dr.claim(), await dr.claim()];
    const byPrimary = [await primary.claim(), await primary.claim()];

    expect(byDr.map((task) => task?.taskId)).to.deep.equal([check, undefined]);
    expect(byDr[0]).to.include({ type: "verify_secret", value: "v1" });
    expect(byDr[0]?.previousValue).to.equal(undefined);
    expect(byPrimary.map((task) => task?.taskId)).to.deep.equal([tasks[0], undefined]);
    expect((await taskOf(operator, dr, check))?.fencing_token).to.equal(null);
  });

  it("of a task whose secret is gone cancels that, and gives the next one", async () => {
    const { environment, primary } = await pair(server);
    const { secrets, tasks } = await rotations(environment, 4);
    const path = (index: number) => `/api/v1/secrets/${secrets[index]?.id}`;
    await server.admin.rest("DELETE", path(0));
    await server.admin.rest("POST", `${path(1)}/archive`);
    await server.admin.rest("DELETE", `${path(2)}/permanent`);

    const claimed = await primary.claim();

    expect(claimed?.taskId).to.equal(tasks[3]);
    for (const id of tasks.slice(0, 3)) {
      const task = await taskOf(operator, primary, id);
      expect(task).to.include({ status: "cancelled", claimed_at: null, deadline_at: null, fencing_token: null });
      expect(task?.finished_at).not.to.equal(null);
      const [event] = await recorded(server, id);
      expect(event).to.include({ action: "task.cancel", outcome: "success", actor_type: "system" });
    }
  });

  it("of a task that cannot be read has that fail, and gives the next one", async () => {
    const { environment, primary } = await pair(server);
    const { secrets, tasks } = await rotations(environment, 2);
    await server.sql("update secret_version set sealed = '\\x00' where secret_id = $1", [secrets[0]?.id]);

    const claimed = await primary.claim();

    expect(claimed?.taskId).to.equal(tasks[1]);
    const [damaged = ""] = tasks;
    expect(await taskOf(operator, primary, damaged)).to.include({
      status: "failed",
      error: "what it takes cannot be read",
    });
    expect((await recorded(server, damaged)).at(-1)).to.include({ action: "task.complete", actor_type: "system" });
  });

  it("under the token of before is refused once another gateway is active, and when it is active again", async () => {
    const made = await pair(server);
    const { environment, primary, dr } = made;
    const { tasks } = await rotations(environment, 1);
    await failOver(operator, made);

    const afterFailover = await refusalOf(primary.claim());
    await operator.rest("POST", `/api/v1/admin/failover/${environment}/failback`, {});
    const afterFailback = await refusalOf(primary.claim());
    const ofDr = await refusalOf(dr.claim());
    await primary.heartbeat();
    const claimed = await primary.claim();

    expect([afterFailover, afterFailback, ofDr]).to.deep.equal([stale, stale, stale]);
    expect(claimed?.taskId).to.equal(tasks[0]);
  });

  it("without the token is refused to the active gateway, and with one to a gateway that stands by", async () => {
    const { primary, dr } = await pair(server);
    const claim = (gateway: TestGateway, fencingToken?: string) => {
      const { id: gatewayId, instanceId } = gateway;
      const request = fencingToken === undefined ? { gatewayId, instanceId } : { gatewayId, instanceId, fencingToken };
      return refusalOf(gateway.link.claimTask(request, gateway.client.metadata()));
    };

    expect(await claim(primary)).to.equal(stale);
    expect(await claim(primary, "1")).to.equal(stale);
    expect(await claim(dr, primary.token)).to.equal(stale);
  });

  it("that is refused is recorded with its gateway", async () => {
    const made = await pair(server);
    await failOver(operator, made);

    await refusalOf(made.primary.claim());

    const events = await server.sql(
      `select outcome, reason, resource_type, resource_name from audit_event
       where action = 'task.claim' and actor_id = $1`,
      [made.primary.client.id],
    );
    expect(events).to.deep.equal([
      {
        outcome: "failure",
        reason: "RESOURCE_CONFLICT",
        resource_type: "gateway",
        resource_name: made.primary.name,
      },
    ]);
  });

  it("may spell ids in capital letters, and so may the report and the stream", async () => {
    const { environment, primary } = await pair(server);
    await rotations(environment, 1);
    primary.id = primary.id.toUpperCase();
    primary.instanceId = primary.instanceId.toUpperCase();

    const first = await primary.watch().next();
    const { taskId, claimId } = (await primary.claim()) as Assignment;
    const report = { taskId: taskId.toUpperCase(), claimId: claimId.toUpperCase() };
    const answers = [await primary.complete(report), await primary.complete(report)];

    expect(first?.kind.case).to.equal("standing");
    expect(answers.map(({ status }) => status)).to.deep.equal(["succeeded", "succeeded"]);
  });

  it("is refused to a gateway that is deactivated, has failed, or is retired", async () => {
    const [first, second, third, fourth] = [
      await pair(server),
      await pair(server),
      await pair(server),
      await pair(server),
    ];
    await server.sql("update gateway set activation_status = 'failed' where id = $1", [fourth.dr.id]);
    for (const gateway of [first.primary, first.dr]) await act(gateway);
    await act(second.primary, { mark_failed: true });
    await operator.rest("DELETE", `/api/v1/admin/gateways/${third.dr.id}`);
    for (const gateway of [first.primary, second.primary]) await gateway.heartbeat();

    expect(await refusalOf(first.primary.claim())).to.equal("RESOURCE_CONFLICT: the gateway is deactivated");
    expect(await refusalOf(first.dr.claim())).to.equal("RESOURCE_CONFLICT: the gateway is deactivated");
    expect(await refusalOf(second.primary.claim())).to.equal("RESOURCE_CONFLICT: the gateway is deactivated");
    expect(await refusalOf(third.dr.claim())).to.equal("RESOURCE_CONFLICT: the gateway has been replaced or removed");
    expect(await refusalOf(fourth.dr.claim())).to.equal("RESOURCE_CONFLICT: the gateway has failed");
  });

  it("is refused to the process that another one has followed", async () => {
    const { environment, primary } = await pair(server);
    const { tasks } = await rotations(environment, 1);
    const former = primary.at(server.url);
    await primary.restart();

    const refused = await refusalOf(former.claim());
    const claimed = await primary.claim();

    expect(refused).to.equal("RESOURCE_CONFLICT: another instance of this gateway has registered");
    expect(claimed?.taskId).to.equal(tasks[0]);
  });

  it("for a gateway of another identity or organization finds none", async () => {
    const { primary } = await pair(server);
    const { admin } = await server.otherOrganization();
    const others = [await TestGateway.register(server), await TestGateway.register(server, { by: admin })];

    for (const other of others) {
      other.id = primary.id;
      other.instanceId = primary.instanceId;
      other.standing = primary.standing;
      expect(await refusalOf(other.claim())).to.equal("RESOURCE_NOT_FOUND: gateway not found");
    }
    primary.id = randomUUID();
    expect(await refusalOf(primary.claim())).to.equal("RESOURCE_NOT_FOUND: gateway not found");
  });
});
