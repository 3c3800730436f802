import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Answer, Client } from "../../harness/client.ts";
import { FailoverPair, foreignOperator } from "../../harness/failover.ts";
import { useServer } from "../../harness/server.ts";
import { gatewaySecret, rotate } from "./rotations.ts";

const server = useServer();
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);
const lockOf = async ({ environment }: FailoverPair) =>
  (await server.sql("select holder_id, fencing_token from environment_lock where environment = $1", [environment]))[0];

function expectConflict({ status, body }: Answer, message: RegExp): void {
  expect([status, body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
  expect(body.error.message).to.match(message);
}

describe("activate-dr", () => {
  it("makes the DR gateway active under a new, higher token, once the primary has failed", async () => {
    const pair = await newPair();
    const before = BigInt(pair.primary.token ?? 0);
    await pair.fail(pair.primary);

    const { status, body } = await pair.activateDr();

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("message", "fencing_token");
    expect(body.message).to.contain(pair.dr.name);
    expect(body.fencing_token).to.match(/^\d{19}$/);
    expect(BigInt(body.fencing_token) > before).to.equal(true);
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["failed", "active"]);
    expect(await lockOf(pair)).to.deep.equal({ holder_id: pair.dr.id, fencing_token: body.fencing_token });
    await pair.dr.heartbeat();
    expect(pair.dr.token).to.equal(body.fencing_token);
  });

  it("needs no body", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);

    const { status } = await operator.rest("POST", `/api/v1/admin/failover/${pair.environment}/activate-dr`);

    expect(status).to.equal(200);
  });

  it("gives the DR gateway the tasks of the primary: those that waited, and those that it was at, again", async () => {
    const pair = await newPair();
    const secrets = [await gatewaySecret(server, pair.environment), await gatewaySecret(server, pair.environment)];
    for (const secret of secrets) await rotate(operator, secret);
    const running = await pair.primary.claim();

    await pair.failOver();

    const { body: tasks } = await operator.rest("GET", `/api/v1/admin/gateways/${pair.dr.id}/tasks?status=pending`);
    expect(tasks.map((task: Record<string, unknown>) => [task["attempt"], task["retry_of"]])).to.have.deep.members([
      [1, null],
      [2, running?.taskId],
    ]);
    const [failed, activated] = await pair.events("gateway.fail", "gateway.activate_dr");
    expect(failed.details).to.include({ tasks_moved: 1, tasks_requeued: 1 });
    expect(activated.details).to.include({ tasks_moved: 2, tasks_requeued: 0 });
  });

  it("makes a token that rises though the clock was set back", async () => {
    const pair = await newPair();
    const ahead = BigInt(pair.primary.token ?? 0) + 3_600_000_000_000n;
    await server.sql("update environment_lock set fencing_token = $2, last_token = $2 where environment = $1", [
      pair.environment,
      String(ahead),
    ]);
    await pair.fail(pair.primary);

    const { body } = await pair.activateDr();

    expect(body.fencing_token).to.equal(String(ahead + 1n));
  });

  it("is refused while the primary is active, with the age of its heartbeat", async () => {
    const pair = await newPair();
    const fresh = await pair.activateDr();
    await pair.primary.fallSilent(350);
    const silent = await pair.activateDr();

    expectConflict(fresh, /^primary is not in failed state: it is active, last heartbeat \d+ seconds? ago$/);
    expectConflict(silent, /^primary is not in failed state: it is active, last heartbeat 5 minutes ago$/);
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["active", "standby"]);
  });

  it("is refused while the primary stands by", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary);

    expectConflict(await pair.activateDr(), /^primary is not in failed state: it is standby, last heartbeat/);
  });

  it("is refused when a failed primary talks again, with the hint to use failback", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);
    await pair.primary.heartbeat();

    expectConflict(
      await pair.activateDr(),
      /^primary is not in failed state: last heartbeat \d+ seconds? ago; use failback$/,
    );
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["failed", "standby"]);
  });

  it("takes the word of an operator who marked the primary as failed over its heartbeats", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary, { mark_failed: true });
    await pair.primary.heartbeat();

    expect((await pair.activateDr()).status).to.equal(200);
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["failed", "active"]);
  });

  it("is refused when a DR gateway is already active", async () => {
    const pair = await newPair();
    await pair.failOver();
    const { fencing_token: token } = await lockOf(pair);

    expectConflict(await pair.activateDr(), /^DR gateway is already active$/);
    expectConflict(await pair.activateDr({ gateway_id: pair.dr.id }), /^DR gateway is already active$/);
    expect((await lockOf(pair)).fencing_token).to.equal(token);
  });

  it("is refused without a healthy standby: silent, failed, or deactivated and not named", async () => {
    const [silent, failed, deactivated] = [await newPair(), await newPair(), await newPair()];
    await silent.dr.fallSilent(121);
    await failed.fail(failed.dr);
    await deactivated.deactivate(deactivated.dr);

    for (const pair of [silent, failed, deactivated]) {
      await pair.fail(pair.primary);
      expectConflict(await pair.activateDr(), /^no DR gateway is a healthy standby$/);
    }
  });

  it("is refused while a failed DR gateway has registered again, and is accepted after its heartbeat", async () => {
    const pair = await newPair();
    await pair.fail(pair.dr);
    await pair.fail(pair.primary);
    await pair.dr.restart();

    expectConflict(await pair.activateDr(), /^no DR gateway is a healthy standby$/);
    await pair.dr.heartbeat();
    expect((await pair.activateDr()).status).to.equal(200);
  });

  it("is refused when the named one is no healthy standby", async () => {
    const pair = await newPair();
    const other = await pair.another("dr-standby", "sick");
    await other.fallSilent(121);
    await pair.fail(pair.primary);

    expectConflict(
      await pair.activateDr({ gateway_id: other.id }),
      /^DR gateway sick is no healthy standby: it is standby, last heartbeat 2 minutes ago$/,
    );
    expect(await pair.statuses(pair.dr, other)).to.deep.equal(["standby", "standby"]);
  });

  it("is refused where no primary is registered", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary);
    await pair.retire(pair.primary);

    expectConflict(await pair.activateDr(), /^no primary is registered in the environment$/);
  });

  it("chooses the healthy standby that was heard of last, ties by name", async () => {
    const [recent, tied] = [await newPair(), await newPair()];
    const late = await recent.another("dr-standby");
    await recent.dr.fallSilent(10);
    await recent.fail(recent.primary);
    const [zebra, ant] = [await tied.another("dr-standby", "zebra"), await tied.another("dr-standby", "ant")];
    await server.sql("update gateway set last_heartbeat = now() where id = any($1)", [[zebra.id, ant.id]]);
    await tied.fail(tied.primary);

    await recent.activateDr();
    await tied.activateDr();

    expect(await recent.statuses(late, recent.dr)).to.deep.equal(["active", "standby"]);
    expect(await tied.statuses(ant, zebra, tied.dr)).to.deep.equal(["active", "standby", "standby"]);
  });

  it("activates the named one, also when that was deactivated, which ends", async () => {
    const pair = await newPair();
    const other = await pair.another("dr-standby");
    await pair.deactivate(other);
    await pair.fail(pair.primary);

    const { status } = await pair.activateDr({ gateway_id: other.id.toUpperCase() });

    expect(status).to.equal(200);
    expect(await pair.statuses(other, pair.dr)).to.deep.equal(["active", "standby"]);
    expect(await pair.record(other)).to.include({ deactivated_at: null, holds_lock: true });
  });

  it("is 404 for an unknown environment, without a DR gateway, and for a name that is no DR gateway of it", async () => {
    const [pair, elsewhere] = [await newPair(), await newPair()];
    await pair.fail(pair.primary);
    const unknown = await operator.rest("POST", "/api/v1/admin/failover/nowhere/activate-dr", {});
    const answers = [];
    for (const id of [pair.primary.id, elsewhere.dr.id, randomUUID()]) {
      answers.push(await pair.activateDr({ gateway_id: id }));
    }
    await pair.retire(pair.dr);
    const without = await pair.activateDr();

    expect([unknown.status, unknown.body.error.message]).to.deep.equal([404, "environment not found"]);
    expect([without.status, without.body.error.message]).to.deep.equal([404, "DR gateway not found"]);
    for (const { status, body } of answers) {
      expect([status, body.error.code]).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
      expect(body.error.details).to.deep.equal([{ field: "gateway_id", message: "does not exist" }]);
    }
    expect(await server.sql("select 1 from environment_lock where environment = 'nowhere'")).to.deep.equal([]);
  });

  it("is 400 for what is no id, and for too long a reason", async () => {
    const pair = await newPair();
    const badId = await pair.activateDr({ gateway_id: "dr" });
    const longReason = await pair.activateDr({ reason: "r".repeat(1001) });

    expect([badId.status, badId.body.error.details[0].field]).to.deep.equal([400, "gateway_id"]);
    expect([longReason.status, longReason.body.error.details[0].field]).to.deep.equal([400, "reason"]);
  });

  it("is for the role gateway:admin only", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);
    const gateway = await pair.activateDr({}, pair.dr.client);
    const admin = await pair.activateDr({}, await server.as("admin-only", ["admin"]));
    const nobody = await pair.activateDr({}, server.anonymous);

    expect([gateway.status, admin.status, nobody.status]).to.deep.equal([403, 403, 401]);
    expect(admin.body.error.message).to.equal("role gateway:admin is required");
    expect(await pair.statuses(pair.dr)).to.deep.equal(["standby"]);
  });

  it("knows nothing of another organization's environment", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);

    const answer = await pair.activateDr({ gateway_id: pair.dr.id }, await foreignOperator(server));

    expect(answer.status).to.equal(404);
    expect(await pair.statuses(pair.dr)).to.deep.equal(["standby"]);
  });

  it("is recorded with what changed and why, and when it is refused", async () => {
    const pair = await newPair();
    await pair.activateDr({ reason: "too early" });
    await pair.fail(pair.primary);
    const { body } = await pair.activateDr({ reason: "the region is down" });

    const [refused, done] = await pair.events("gateway.activate_dr");

    expect(refused).to.deep.include({ outcome: "failure", reason: "RESOURCE_CONFLICT", actor_name: "operator" });
    expect(done).to.deep.include({
      outcome: "success",
      reason: "the region is down",
      resource_type: "gateway",
      resource_id: pair.dr.id,
      resource_name: pair.dr.name,
    });
    expect(done.details).to.deep.equal({
      environment: pair.environment,
      role: "dr-standby",
      before: "standby",
      after: "active",
      fencing_token: body.fencing_token,
      tasks_moved: 0,
      tasks_requeued: 0,
    });
  });
});
