import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { FailoverPair, foreignOperator } from "../../harness/failover.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);
const holderOf = async ({ environment }: FailoverPair) =>
  (await server.sql("select holder_id from environment_lock where environment = $1", [environment]))[0].holder_id;

describe("Deactivating", () => {
  it("answers the record of the gateway", async () => {
    const pair = await newPair();

    const { status, body } = await pair.deactivate(pair.primary);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(
      "id organization_id name environment role activation_status last_heartbeat consecutive_failures hostname version region identity_client_id holds_lock deactivated_at registered_at updated_at".split(
        " ",
      ),
    );
    expect(body).to.deep.equal(await pair.record(pair.primary));
    expect(body).to.include({ id: pair.primary.id, activation_status: "standby", holds_lock: false });
    expect(Date.parse(body.deactivated_at)).to.be.closeTo(Date.now(), 60_000);
  });

  it("needs no body", async () => {
    const pair = await newPair();

    const { status } = await operator.rest("POST", `/api/v1/admin/gateways/${pair.primary.id}/deactivate`);

    expect(status).to.equal(200);
  });

  it("takes the active gateway out of service, whichever it is: it stands by, and nobody holds the lock", async () => {
    const [primary, dr] = [await newPair(), await newPair()];
    await dr.failOver();

    await primary.deactivate(primary.primary);
    await dr.deactivate(dr.dr);

    expect(await primary.statuses(primary.primary, primary.dr)).to.deep.equal(["standby", "standby"]);
    expect(await dr.statuses(dr.primary, dr.dr)).to.deep.equal(["failed", "standby"]);
    expect([await holderOf(primary), await holderOf(dr)]).to.deep.equal([null, null]);
    const { activationStatus, standDown, fencingToken } = await dr.dr.heartbeat();
    expect([activationStatus, standDown, fencingToken]).to.deep.equal(["standby", true, undefined]);
  });

  it("leaves a standby and a failed gateway what they are", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);

    for (const [gateway, expected] of [
      [pair.dr, "standby"],
      [pair.primary, "failed"],
    ] as const) {
      const { status, body } = await pair.deactivate(gateway);

      expect([status, body.activation_status]).to.deep.equal([200, expected]);
      expect(body.deactivated_at).to.be.a("string");
    }
  });

  it("marks an active or standby primary as failed when it is told to", async () => {
    const [active, standby] = [await newPair(), await newPair()];
    await standby.deactivate(standby.primary);

    for (const pair of [active, standby]) {
      const { body } = await pair.deactivate(pair.primary, { mark_failed: true });

      expect(body).to.include({ activation_status: "failed", holds_lock: false });
      expect((await pair.activateDr()).status).to.equal(200);
    }
  });

  it("counts from when it was first, also when the gateway is marked as failed later", async () => {
    const pair = await newPair();

    const { body: first } = await pair.deactivate(pair.primary);
    const { body: later } = await pair.deactivate(pair.primary, { mark_failed: true });

    expect(later.activation_status).to.equal("failed");
    expect(later.deactivated_at).to.equal(first.deactivated_at);
  });

  it("only deactivates a DR gateway that is to be marked as failed", async () => {
    const pair = await newPair();
    await pair.failOver();
    const other = await pair.another("dr-standby");

    const active = await pair.deactivate(pair.dr, { mark_failed: true });
    const standby = await pair.deactivate(other, { mark_failed: true });

    for (const { body } of [active, standby]) {
      expect(body).to.include({ activation_status: "standby", holds_lock: false });
      expect(body.deactivated_at).to.be.a("string");
    }
  });

  it("keeps a failed primary failed, so that the DR gateway can be activated though it talks again", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);
    await pair.deactivate(pair.primary);
    await pair.primary.heartbeat();

    expect((await pair.activateDr()).status).to.equal(200);
  });

  it("changes nothing when it is repeated, and succeeds", async () => {
    const pair = await newPair();

    for (const body of [{}, { mark_failed: true }]) {
      const first = await pair.deactivate(pair.primary, body);
      const second = await pair.deactivate(pair.primary, body);

      const { last_heartbeat: _, ...rest } = first.body;
      expect(second.status).to.equal(200);
      expect(second.body).to.deep.include(rest);
    }
  });

  it("does not take what a repeated deactivation would have to give back", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary, { mark_failed: true });
    await pair.activateDr();
    const holder = await holderOf(pair);

    const again = [await pair.deactivate(pair.primary), await pair.deactivate(pair.primary, { mark_failed: true })];

    expect(again.map(({ status }) => status)).to.deep.equal([200, 200]);
    expect(holder).to.equal(pair.dr.id);
    expect(await holderOf(pair)).to.equal(pair.dr.id);
    expect(await pair.statuses(pair.primary, pair.dr)).to.deep.equal(["failed", "active"]);
  });

  it("lasts through heartbeats, another registration and the monitor", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.dr);
    const { deactivated_at: since } = await pair.record(pair.dr);

    await pair.dr.heartbeat();
    await pair.dr.restart();
    await pair.fail(pair.dr);
    await pair.dr.heartbeat();

    expect(await pair.record(pair.dr)).to.include({ activation_status: "standby", deactivated_at: since });
  });

  it("is 404 for a gateway that is unknown, retired, or of another organization", async () => {
    const pair = await newPair();
    await pair.retire(pair.dr);
    const post = (id: string) => operator.rest("POST", `/api/v1/admin/gateways/${id}/deactivate`, {});

    const answers = [
      await post(randomUUID()),
      await post("none"),
      await pair.deactivate(pair.dr),
      await pair.deactivate(pair.primary, {}, await foreignOperator(server)),
    ];

    for (const { status, body } of answers) {
      expect([status, body.error.code]).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
    }
    expect(await pair.statuses(pair.primary)).to.deep.equal(["active"]);
  });

  it("is for the role gateway:admin only, and takes no reason that is too long", async () => {
    const pair = await newPair();

    const gateway = await pair.deactivate(pair.primary, {}, pair.primary.client);
    const admin = await pair.deactivate(pair.primary, {}, await server.as("admin-only", ["admin"]));
    const longReason = await pair.deactivate(pair.primary, { reason: "r".repeat(1001) });

    expect([gateway.status, admin.status, longReason.status]).to.deep.equal([403, 403, 400]);
    expect(await pair.statuses(pair.primary)).to.deep.equal(["active"]);
  });

  it("is recorded with what changed and why", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary, { mark_failed: true, reason: "the disk is full" });

    const [done] = await pair.events("gateway.deactivate");

    expect(done).to.deep.include({
      outcome: "success",
      actor_name: "operator",
      reason: "the disk is full",
      resource_type: "gateway",
      resource_id: pair.primary.id,
      resource_name: pair.primary.name,
      details: {
        environment: pair.environment,
        role: "primary",
        mark_failed: true,
        before: "active",
        after: "failed",
        tasks_moved: 0,
        tasks_requeued: 0,
      },
    });
  });
});
