import { expect } from "chai";
import type { Answer, Client } from "../../harness/client.ts";
import { FailoverPair, foreignOperator } from "../../harness/failover.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);

/** A pair whose DR gateway is active, and whose primary has recovered. */
async function recoveredPair(): Promise<FailoverPair> {
  const pair = await newPair();
  await pair.failOver();
  await pair.primary.heartbeat();
  return pair;
}

function expectConflict({ status, body }: Answer, message: RegExp): void {
  expect([status, body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
  expect(body.error.message).to.match(message);
}

describe("failback", () => {
  it("returns the environment from the DR gateway to the primary, under a new, higher token", async () => {
    const pair = await recoveredPair();
    const before = BigInt(pair.dr.token ?? 0);

    const { status, body } = await pair.failback();

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("message");
    expect(body.message).to.contain(pair.primary.name);
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["active", "standby"]);
    await pair.primary.heartbeat();
    await pair.dr.heartbeat();
    expect(BigInt(pair.primary.token ?? 0) > before).to.equal(true);
    expect(pair.dr.token).to.equal(undefined);
    expect(await pair.record(pair.primary)).to.include({ holds_lock: true });
    expect(await pair.record(pair.dr)).to.include({ holds_lock: false });
  });

  it("returns from a DR gateway that has died meanwhile", async () => {
    const pair = await recoveredPair();
    await pair.fail(pair.dr);
    await pair.primary.heartbeat();
    const during = await pair.statuses(pair.primary, pair.dr);

    const { status } = await pair.failback();

    expect(during).to.deep.equal(["failed", "failed"]);
    expect(status).to.equal(200);
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["active", "failed"]);
  });

  it("brings back a primary that failed or was deactivated while nobody took over, which ends its deactivation", async () => {
    const [failed, deactivated, marked] = [await newPair(), await newPair(), await newPair()];
    await failed.fail(failed.primary);
    await failed.primary.heartbeat();
    await deactivated.deactivate(deactivated.primary);
    await marked.deactivate(marked.primary, { mark_failed: true });

    for (const pair of [failed, deactivated, marked]) {
      const { status } = await pair.failback();

      expect(status).to.equal(200);
      expect(await pair.record(pair.primary)).to.include({ activation_status: "active", deactivated_at: null });
    }
  });

  it("needs no body", async () => {
    const pair = await recoveredPair();

    const { status } = await operator.rest("POST", `/api/v1/admin/failover/${pair.environment}/failback`);

    expect(status).to.equal(200);
  });

  it("is refused while the primary is silent, with the age of its heartbeat", async () => {
    const [failedOver, nobody] = [await newPair(), await newPair()];
    await failedOver.failOver();
    await nobody.deactivate(nobody.primary);
    await nobody.primary.fallSilent(121);

    expectConflict(await failedOver.failback(), /^primary has not recovered: last heartbeat 6 minutes ago$/);
    expectConflict(await nobody.failback(), /^primary has not recovered: last heartbeat 2 minutes ago$/);
    expect(await failedOver.statuses(failedOver.primary, failedOver.dr)).to.deep.equal(["failed", "active"]);
  });

  it("is refused while the primary is active, also when it is silent", async () => {
    const pair = await newPair();
    expectConflict(await pair.failback(), /^primary is already active$/);
    await pair.primary.fallSilent(200);
    expectConflict(await pair.failback(), /^primary is already active$/);
  });

  it("is 404 for an unknown environment, and where no primary is registered", async () => {
    const pair = await newPair();
    await pair.failOver();
    await pair.retire(pair.primary);

    const unknown = await operator.rest("POST", "/api/v1/admin/failover/nowhere/failback", {});
    const without = await pair.failback();

    expect([unknown.status, unknown.body.error.message]).to.deep.equal([404, "environment not found"]);
    expect([without.status, without.body.error.message]).to.deep.equal([404, "primary gateway not found"]);
  });

  it("is for the role gateway:admin only, and for the own organization only", async () => {
    const pair = await recoveredPair();

    const gateway = await pair.failback({}, pair.primary.client);
    const admin = await pair.failback({}, await server.as("admin-only", ["admin"]));
    const foreign = await pair.failback({}, await foreignOperator(server));

    expect([gateway.status, admin.status, foreign.status]).to.deep.equal([403, 403, 404]);
    expect(await pair.statuses(pair.dr)).to.deep.equal(["active"]);
  });

  it("is recorded with what changed and why, and when it is refused", async () => {
    const pair = await newPair();
    await pair.failOver();
    await pair.failback();
    await pair.primary.heartbeat();
    await pair.failback({ reason: "the region is back" });
    await pair.primary.heartbeat();

    const [refused, done] = await pair.events("gateway.failback");

    expect(refused).to.deep.include({ outcome: "failure", reason: "RESOURCE_CONFLICT", actor_name: "operator" });
    expect(done).to.deep.include({
      outcome: "success",
      reason: "the region is back",
      resource_id: pair.primary.id,
      resource_name: pair.primary.name,
    });
    expect(done.details).to.deep.equal({
      environment: pair.environment,
      role: "primary",
      before: "failed",
      after: "active",
      replaces: pair.dr.id,
      fencing_token: pair.primary.token,
      tasks_moved: 0,
      tasks_requeued: 0,
    });
  });
});
