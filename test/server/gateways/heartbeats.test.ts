import { randomUUID } from "node:crypto";
import type { ServiceError } from "@grpc/grpc-js";
import { status as code } from "@grpc/grpc-js";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { FailoverPair } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { statementsOf } from "../secrets/statements.ts";
import { isWaitedFor, withOpenTransaction } from "./open-transaction.ts";

const server = useServer();
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);

/** The refusal of a call, with its code. */
async function refusedWith(call: Promise<unknown>): Promise<[number | undefined, string]> {
  const refusal = await refusalOf(call);
  const { code: refusedCode } = await call.then(
    () => ({ code: code.OK }),
    (error: ServiceError) => error,
  );
  return [refusedCode, refusal];
}

describe("A heartbeat", () => {
  it("is answered with how the gateway stands", async () => {
    const { primary, dr } = await newPair();
    const { token } = primary;

    const [active, standby] = [await primary.heartbeat(), await dr.heartbeat()];

    expect([active.activationStatus, active.fencingToken, active.standDown]).to.deep.equal(["active", token, false]);
    expect([standby.activationStatus, standby.fencingToken]).to.deep.equal(["standby", undefined]);
    expect([active.leaseSeconds, active.heartbeatIntervalSeconds]).to.deep.equal([120, 30]);
    expect(Number(active.serverTime?.seconds)).to.be.within(Date.now() / 1000 - 60, Date.now() / 1000 + 60);
  });

  it("is one statement, and leaves nothing in the audit log", async () => {
    const { primary } = await newPair();
    const count = async () => (await server.sql("select count(*)::int as events from audit_event"))[0].events;
    await primary.heartbeat();
    const before = await count();

    const statements = await statementsOf(server, () => primary.heartbeat());

    expect(statements.filter((text) => text.includes("gateway g"))).to.have.length(1);
    expect(await count()).to.equal(before);
  });

  it("sets the count of failures back, and is when the gateway was last heard of", async () => {
    const pair = await newPair();
    await pair.primary.fallSilent(250);
    const silent = await pair.record(pair.primary);

    await pair.primary.heartbeat();

    const heard = await pair.record(pair.primary);
    expect([silent.consecutive_failures, heard.consecutive_failures]).to.deep.equal([2, 0]);
    expect(Date.parse(heard.last_heartbeat) - Date.parse(silent.last_heartbeat)).to.be.at.least(250_000);
    expect(heard.updated_at).to.equal(silent.updated_at);
  });

  it("returns a failed DR gateway to standby, which is recorded as done by the system", async () => {
    const pair = await newPair();
    await pair.fail(pair.dr);
    const failed = await pair.statuses(pair.dr);

    const standing = await pair.dr.heartbeat();

    expect(failed).to.deep.equal(["failed"]);
    expect(standing.activationStatus).to.equal("standby");
    const events = await pair.events("gateway.recover");
    expect(events).to.have.length(1);
    expect(events[0]).to.deep.include({
      outcome: "success",
      actor_type: "system",
      resource_id: pair.dr.id,
      resource_name: pair.dr.name,
      details: { environment: pair.environment, before: "failed", after: "standby" },
    });
  });

  it("returns a failed DR gateway once, when several come at once", async () => {
    const pair = await newPair();
    await pair.fail(pair.dr);

    const standings = await Promise.all(Array.from({ length: 10 }, () => pair.dr.heartbeat()));

    expect(standings.map(({ activationStatus }) => activationStatus)).to.deep.equal(Array(10).fill("standby"));
    expect(await pair.events("gateway.recover")).to.have.length(1);
  });

  it("leaves a failed primary failed, which is shown as healthy", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);

    const standing = await pair.primary.heartbeat();

    expect([standing.activationStatus, standing.fencingToken]).to.deep.equal(["failed", undefined]);
    const { body } = await operator.rest("GET", "/api/v1/admin/gateway-health");
    const vitals = body.gateways.find(({ id }: { id: string }) => id === pair.primary.id);
    expect(vitals).to.include({ activation_status: "failed", healthy: true, consecutive_failures: 0 });
  });

  it("tells a deactivated gateway to stand down", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary);

    const standing = await pair.primary.heartbeat();

    expect([standing.activationStatus, standing.standDown]).to.deep.equal(["standby", true]);
    expect(standing.fencingToken).to.equal(undefined);
  });

  it("is refused for a gateway that is not the caller's, or is none", async () => {
    const { primary, dr } = await newPair();
    const { admin } = await server.otherOrganization();
    const foreign = await TestGateway.register(server, { by: admin });
    const beat = (caller: TestGateway, gatewayId: string) =>
      caller.link.heartbeat({ gatewayId, instanceId: primary.instanceId }, caller.client.metadata());

    for (const [caller, id] of [
      [dr, primary.id],
      [foreign, primary.id],
      [primary, randomUUID()],
    ] as const) {
      expect(await refusedWith(beat(caller, id))).to.deep.equal([
        code.NOT_FOUND,
        "RESOURCE_NOT_FOUND: gateway not found",
      ]);
    }
  });

  it("is refused for another instance, and for a gateway that is retired", async () => {
    const pair = await newPair();
    const former = pair.primary.at(server.url);
    await pair.primary.restart();
    await pair.retire(pair.dr);

    expect(await refusedWith(former.heartbeat())).to.deep.equal([
      code.ABORTED,
      "RESOURCE_CONFLICT: another instance of this gateway has registered",
    ]);
    expect(await refusedWith(pair.dr.heartbeat())).to.deep.equal([
      code.FAILED_PRECONDITION,
      "RESOURCE_CONFLICT: the gateway has been replaced or removed",
    ]);
  });

  it("that waited for a failover knows the new token", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);
    const lock = [pair.environment, pair.dr.id];

    const { activationStatus, fencingToken } = await withOpenTransaction(server, async (session) => {
      await session.query("update gateway set activation_status = 'active' where environment = $1 and id = $2", lock);
      await session.query(
        `update environment_lock set holder_id = $2, fencing_token = last_token + 1, last_token = last_token + 1
         where environment = $1`,
        lock,
      );
      const beating = pair.dr.heartbeat();
      await isWaitedFor(session);
      await session.query("commit");
      return beating;
    });

    const [{ fencing_token: token }] = await server.sql(
      "select fencing_token from environment_lock where environment = $1",
      [pair.environment],
    );
    expect([activationStatus, fencingToken]).to.deep.equal(["active", token]);
  });

  it("that waited while its gateway was failed gets no token", async () => {
    const pair = await newPair();

    const { activationStatus, fencingToken } = await withOpenTransaction(server, async (session) => {
      await session.query("update gateway set activation_status = 'failed' where id = $1", [pair.primary.id]);
      await session.query("update environment_lock set holder_id = null, fencing_token = null where environment = $1", [
        pair.environment,
      ]);
      const beating = pair.primary.heartbeat();
      await isWaitedFor(session);
      await session.query("commit");
      return beating;
    });

    expect([activationStatus, fencingToken]).to.deep.equal(["failed", undefined]);
  });
});
