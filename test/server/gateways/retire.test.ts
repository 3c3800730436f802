import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { FailoverPair, foreignOperator } from "../../harness/failover.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";

const server = useServer();
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);

describe("Retiring", () => {
  it("removes a gateway that stands by or has failed: 204, then 404", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);

    for (const gateway of [pair.dr, pair.primary]) {
      const [first, second] = [await pair.retire(gateway), await pair.retire(gateway)];

      expect([first.status, second.status]).to.deep.equal([204, 404]);
      expect(await pair.record(gateway)).to.equal(undefined);
    }
  });

  it("is refused for the active one, until it is deactivated", async () => {
    const pair = await newPair();

    const active = await pair.retire(pair.primary);
    await pair.deactivate(pair.primary);
    const standby = await pair.retire(pair.primary);

    expect([active.status, active.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    expect(active.body.error.message).to.equal("the gateway is active: deactivate it first");
    expect(standby.status).to.equal(204);
  });

  it("ends all that the gateway may do", async () => {
    const pair = await newPair();
    await pair.retire(pair.dr);

    const refusal = "RESOURCE_CONFLICT: the gateway has been replaced or removed";
    for (const call of [() => pair.dr.heartbeat(), () => pair.dr.register(), () => pair.dr.claim()]) {
      expect(await refusalOf(call())).to.equal(refusal);
    }
    expect(await refusalOf(pair.dr.watch().next())).to.equal(refusal);
  });

  it("leaves the tasks on record, and cancels those that wait for the gateway", async () => {
    const pair = await newPair();
    const [{ id }] = await server.sql(
      `insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts, requested_by)
       select organization_id, environment, id, 'verify_secret', gen_random_uuid(), gen_random_uuid(), 1, 'system'
       from gateway where id = $1 returning id`,
      [pair.dr.id],
    );

    await pair.retire(pair.dr);

    const { status, body } = await operator.rest("GET", `/api/v1/admin/gateways/${pair.dr.id}/tasks`);
    expect(status).to.equal(200);
    expect(body).to.have.length(1);
    expect(body[0]).to.include({ id, status: "cancelled" });
    expect(body[0].finished_at).to.be.a("string");
  });

  it("is 404 for a gateway that is unknown or of another organization, and for the role gateway:admin only", async () => {
    const pair = await newPair();
    const unknown = await operator.rest("DELETE", `/api/v1/admin/gateways/${randomUUID()}`);
    const foreign = await pair.retire(pair.dr, await foreignOperator(server));
    const admin = await pair.retire(pair.dr, await server.as("admin-only", ["admin"]));

    expect([unknown.status, foreign.status, admin.status]).to.deep.equal([404, 404, 403]);
    expect(await pair.statuses(pair.dr)).to.deep.equal(["standby"]);
  });

  it("is recorded", async () => {
    const pair = await newPair();
    await pair.retire(pair.dr);

    const events = await pair.events("gateway.retire");

    expect(events).to.have.length(1);
    expect(events[0]).to.deep.include({
      outcome: "success",
      actor_name: "operator",
      resource_id: pair.dr.id,
      resource_name: pair.dr.name,
      details: { environment: pair.environment, role: "dr-standby", before: "standby" },
    });
  });
});
