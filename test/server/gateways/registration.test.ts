import { randomUUID } from "node:crypto";
import type { ServiceError } from "@grpc/grpc-js";
import { status as code } from "@grpc/grpc-js";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { FailoverPair } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { isWaitedFor, withOpenTransaction } from "./open-transaction.ts";

const server = useServer();
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => code.OK,
    (error: ServiceError) => error.code,
  );

describe("A primary that registers for the first time", () => {
  it("becomes active and holds the lock when nobody does", async () => {
    const primary = await TestGateway.register(server);

    const { activationStatus, standDown, leaseSeconds, heartbeatIntervalSeconds } = primary.standing ?? {};
    expect({ activationStatus, standDown }).to.deep.equal({ activationStatus: "active", standDown: false });
    expect({ leaseSeconds, heartbeatIntervalSeconds }).to.deep.equal({
      leaseSeconds: 120,
      heartbeatIntervalSeconds: 30,
    });
    const [lock] = await server.sql("select holder_id, fencing_token from environment_lock where environment = $1", [
      primary.environment,
    ]);
    expect(lock).to.deep.equal({ holder_id: primary.id, fencing_token: primary.token });
  });

  it("gets the Unix time in nanoseconds as its fencing token", async () => {
    const before = Date.now();
    const primary = await TestGateway.register(server);

    const milliseconds = Number(BigInt(primary.token ?? 0) / 1_000_000n);
    expect(milliseconds).to.be.within(before - 5000, Date.now() + 5000);
  });

  it("stands by while the DR gateway holds the environment", async () => {
    const pair = await newPair();
    await pair.failOver();
    await pair.retire(pair.primary);

    const other = await pair.another("primary");

    expect([other.status, other.token]).to.deep.equal(["standby", undefined]);
    expect(await pair.statuses(pair.dr)).to.deep.equal(["active"]);
  });

  it("is recorded as done by a gateway, with what it became", async () => {
    const pair = await newPair();

    const [first, second] = await pair.events("gateway.register");

    expect(first).to.deep.include({
      outcome: "success",
      actor_type: "gateway",
      resource_type: "gateway",
      resource_id: pair.primary.id,
      resource_name: pair.primary.name,
    });
    expect(first.details).to.include({ role: "primary", after: "active", fencing_token: pair.primary.token });
    expect(second.details).to.include({ role: "dr-standby", after: "standby" });
  });
});

describe("A DR gateway that registers", () => {
  it("stands by, whether or not there is a primary", async () => {
    const alone = await TestGateway.register(server, { role: "dr-standby" });
    const { dr } = await newPair();

    expect([alone.status, dr.status]).to.deep.equal(["standby", "standby"]);
  });

  it("may be one of several", async () => {
    const pair = await newPair();

    const second = await pair.another("dr-standby");

    expect(await pair.statuses(pair.dr, second)).to.deep.equal(["standby", "standby"]);
  });
});

describe("A known gateway that registers again", () => {
  it("keeps its id and how it stands, and says anew what runs where", async () => {
    const pair = await newPair();
    const { id, token } = pair.primary;
    const { name, environment, role, instanceId } = pair.primary;

    const answer = await pair.primary.link.register(
      { name, environment, role, instanceId, version: "2.0.0", hostname: "other", region: "r", identityClientId: "mi" },
      pair.primary.client.metadata(),
    );

    expect(answer.gatewayId).to.equal(id);
    expect(answer.standing?.fencingToken).to.equal(token);
    expect(await pair.record(pair.primary)).to.include({
      version: "2.0.0",
      hostname: "other",
      region: "r",
      identity_client_id: "mi",
    });
  });

  it("keeps to be failed, and its deactivation", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary, { mark_failed: true });

    const { standDown } = await pair.primary.restart();

    expect([pair.primary.status, pair.primary.token, standDown]).to.deep.equal(["failed", undefined, true]);
  });

  it("gets a new token as another instance while it is active, and none as a standby", async () => {
    const pair = await newPair();
    const { token } = pair.primary;

    await pair.primary.restart();
    await pair.dr.restart();

    expect(BigInt(pair.primary.token ?? 0) > BigInt(token ?? 0)).to.equal(true);
    expect([pair.dr.status, pair.dr.token]).to.deep.equal(["standby", undefined]);
  });

  it("does not take the place of another instance once its process is gone, however late its call is dealt with", async () => {
    const { primary } = await newPair();
    const { name, environment, role, client, link } = primary;
    const gone = { name, environment, role, instanceId: randomUUID(), version: "1.0.0" };

    await withOpenTransaction(server, async (session) => {
      await session.query("select from environment_lock where environment = $1 for update", [environment]);
      const call = link.register(gone, client.metadata(), { deadline: Date.now() + 1000 });
      await isWaitedFor(session);
      expect(await codeOf(call)).to.equal(code.DEADLINE_EXCEEDED);
    });

    // Waits for what the registration has locked.
    await server.sql("select from environment_lock where environment = $1 for update", [environment]);
    expect((await primary.heartbeat()).activationStatus).to.equal("active");
    expect((await primary.heartbeat()).fencingToken).to.equal(primary.token);
  });

  it("ends what its former instance may do", async () => {
    const { primary } = await newPair();
    const former = primary.at(server.url);

    await primary.restart();

    const refusal = "RESOURCE_CONFLICT: another instance of this gateway has registered";
    expect(await refusalOf(former.heartbeat())).to.equal(refusal);
    expect(await codeOf(former.heartbeat())).to.equal(code.ABORTED);
    expect((await primary.heartbeat()).activationStatus).to.equal("active");
  });

  it("is refused with another environment or role", async () => {
    const { primary, dr } = await newPair();
    const elsewhere = new TestGateway(server, primary.client, { ...primary, environment: "elsewhere" });
    const otherwise = new TestGateway(server, dr.client, { ...dr, role: "primary" });

    expect(await refusalOf(elsewhere.register())).to.equal(
      `RESOURCE_CONFLICT: the gateway is registered as primary of the environment ${primary.environment}`,
    );
    expect(await codeOf(elsewhere.register())).to.equal(code.FAILED_PRECONDITION);
    expect(await codeOf(otherwise.register())).to.equal(code.FAILED_PRECONDITION);
  });

  it("is another gateway under another name", async () => {
    const { primary } = await newPair();

    const other = new TestGateway(server, primary.client);
    await other.register();

    expect(other.id).not.to.equal(primary.id);
    expect(other.status).to.equal("active");
  });

  it("is refused once it is retired", async () => {
    const pair = await newPair();
    await pair.retire(pair.dr);

    const refusal = "RESOURCE_CONFLICT: the gateway has been replaced or removed";
    expect(await refusalOf(pair.dr.register())).to.equal(refusal);
    expect(await codeOf(pair.dr.restart())).to.equal(code.FAILED_PRECONDITION);
    expect(await refusalOf(pair.dr.heartbeat())).to.equal(refusal);
  });
});

describe("A second primary of an environment", () => {
  const second = async (pair: FailoverPair) =>
    TestGateway.prepare(server, { environment: pair.environment, name: `second-${randomUUID()}` });

  it("is refused while the first is active, also a silent one", async () => {
    const pair = await newPair();
    const other = await second(pair);
    await pair.primary.fallSilent(200);

    expect(await refusalOf(other.register())).to.equal(
      `RESOURCE_CONFLICT: role primary is taken in this environment by gateway ${pair.primary.name}: active, last heartbeat 3 minutes ago`,
    );
    expect(await codeOf(other.register())).to.equal(code.ALREADY_EXISTS);
  });

  it("is refused while the first still talks, as a standby, failed or deactivated one", async () => {
    const [standby, failed] = [await newPair(), await newPair()];
    await standby.deactivate(standby.primary);
    await failed.deactivate(failed.primary, { mark_failed: true });

    for (const pair of [standby, failed]) {
      expect(await codeOf((await second(pair)).register())).to.equal(code.ALREADY_EXISTS);
    }
  });

  it("takes the place of a failed and silent one as a standby, and failback brings it into service", async () => {
    const pair = await newPair();
    await pair.failOver();

    const other = await pair.another("primary");
    const { status } = await pair.failback();

    expect(other.status).to.equal("standby");
    expect(status).to.equal(200);
    expect(await pair.statuses(pair.primary, other, pair.dr)).to.deep.equal(["retired", "active", "standby"]);
    expect(await codeOf(pair.primary.register())).to.equal(code.FAILED_PRECONDITION);
  });

  it("stands by also where nobody holds the environment", async () => {
    const pair = await newPair();
    await pair.fail(pair.primary);

    const other = await pair.another("primary");

    expect(await pair.statuses(pair.primary, other, pair.dr)).to.deep.equal(["retired", "standby", "standby"]);
  });

  it("takes the place of a deactivated and silent one", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary);
    await pair.primary.fallSilent(121);

    const other = await pair.another("primary");

    expect(await pair.statuses(pair.primary, other)).to.deep.equal(["retired", "standby"]);
    const [retired] = await pair.events("gateway.retire");
    expect(retired).to.include({ actor_type: "gateway", resource_id: pair.primary.id });
  });

  it("becomes active where an operator has removed the first", async () => {
    const pair = await newPair();
    await pair.deactivate(pair.primary);
    await pair.retire(pair.primary);

    const other = await pair.another("primary");

    expect(other.status).to.equal("active");
  });

  it("is the only one that becomes active of ten that register at once, on two replicas", async function () {
    this.timeout(60_000);
    const replica = await server.startReplica();
    for (let round = 0; round < 5; round += 1) {
      const environment = `contended-${round}`;
      const contenders = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          TestGateway.prepare(server, { environment, url: index % 2 === 0 ? server.url : urlOf(replica) }),
        ),
      );

      const codes = await Promise.all(contenders.map((each) => codeOf(each.register())));

      expect(codes.filter((each) => each === code.OK)).to.have.length(1);
      expect(codes.filter((each) => each === code.ALREADY_EXISTS)).to.have.length(9);
    }
  });
});

describe("Registering", () => {
  it("is refused without the role gateway, and without what a gateway is known by", async () => {
    const admin = new TestGateway(server, server.admin);
    const gateway = await TestGateway.prepare(server);
    const request = { name: "n", environment: "e", role: "primary", instanceId: randomUUID() };
    const cases = [
      [{ name: "" }, "name"],
      [{ environment: "" }, "environment"],
      [{ environment: "e".repeat(51) }, "environment"],
      [{ role: "secondary" }, "role"],
      [{ instanceId: "first" }, "instance_id"],
    ] as const;

    expect(await refusalOf(admin.register())).to.equal("PERMISSION_DENIED: permission gateway:connect is required");
    for (const [fields, field] of cases) {
      const registering = gateway.link.register({ ...request, ...fields }, gateway.client.metadata());
      expect(await codeOf(registering), field).to.equal(code.INVALID_ARGUMENT);
    }
  });

  it("keeps organizations apart: the same environment is another one", async () => {
    const { admin } = await server.otherOrganization();
    const ours = await TestGateway.register(server);

    const theirs = await TestGateway.register(server, { environment: ours.environment, by: admin });

    expect(theirs.status).to.equal("active");
    expect((await ours.heartbeat()).activationStatus).to.equal("active");
  });
});
