import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { FailoverPair, foreignOperator } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { statementsOf } from "../secrets/statements.ts";
import { withOpenTransaction } from "./open-transaction.ts";

const server = useServer();
const path = "/api/v1/admin/gateway-health";
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const newPair = () => FailoverPair.register(server, operator);

describe("gateway-health", () => {
  it("shows the limits, each gateway and each environment, with every field", async () => {
    const pair = await newPair();

    const { status, body } = await operator.rest("GET", path);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(
      "generated_at",
      "heartbeat_timeout_seconds",
      "failure_threshold",
      "gateways",
      "environments",
    );
    expect(body).to.include({ heartbeat_timeout_seconds: 120, failure_threshold: 3 });
    const vitals = body.gateways.find(({ id }: { id: string }) => id === pair.primary.id);
    const { last_heartbeat: lastHeartbeat, seconds_since_heartbeat: age, ...rest } = vitals;
    expect(Date.parse(lastHeartbeat)).to.be.closeTo(Date.now(), 60_000);
    expect(age).to.be.within(0, 60);
    expect(rest).to.deep.equal({
      id: pair.primary.id,
      name: pair.primary.name,
      environment: pair.environment,
      role: "primary",
      activation_status: "active",
      consecutive_failures: 0,
      healthy: true,
      deactivated_at: null,
    });
    const { lock, blocked_reason: blockedReason, ...environment } = await pair.health();
    expect(lock).to.include({ holder_gateway_id: pair.primary.id, fencing_token: pair.primary.token });
    expect(Date.parse(lock.acquired_at)).to.be.closeTo(Date.now(), 60_000);
    expect(blockedReason).to.match(/^primary is not in failed state: it is active, last heartbeat/);
    expect(environment).to.deep.equal({
      environment: pair.environment,
      status: "healthy",
      active_gateway_id: pair.primary.id,
      can_activate_dr: false,
      can_failback: false,
      tasks: { pending: 0, running: 0 },
      readiness: { configurations: 0, ready: 0, unchecked: 0, failing: 0, failures: [] },
    });
  });

  it("says of a silent gateway for how long, and that it is not healthy, however it stands", async () => {
    const pair = await newPair();
    await pair.primary.fallSilent(250);

    const { body } = await operator.rest("GET", path);

    const vitals = body.gateways.find(({ id }: { id: string }) => id === pair.primary.id);
    expect(vitals).to.include({ activation_status: "active", healthy: false, consecutive_failures: 2 });
    expect(vitals.seconds_since_heartbeat).to.be.within(250, 300);
  });

  it("lists environments and gateways by name, the primary first, without retired ones, of the own organization", async () => {
    for (const environment of ["beta", "alpha"]) {
      await TestGateway.register(server, { environment, role: "dr-standby", name: `${environment}-a` });
      await TestGateway.register(server, { environment, role: "primary", name: `${environment}-z` });
    }
    const retired = await TestGateway.register(server, { environment: "gamma", role: "dr-standby", name: "gamma-a" });
    await operator.rest("DELETE", `/api/v1/admin/gateways/${retired.id}`);

    const { body } = await operator.rest("GET", path);
    const foreign = await (await foreignOperator(server)).rest("GET", path);

    const names = body.gateways.map(({ name }: { name: string }) => name);
    const ours = names.filter((name: string) => /^(alpha|beta|gamma)/.test(name));
    expect(ours).to.deep.equal(["alpha-z", "alpha-a", "beta-z", "beta-a"]);
    const environments = body.environments.map(({ environment }: { environment: string }) => environment);
    expect(environments).to.include.members(["alpha", "beta"]).and.not.include("gamma");
    expect([foreign.body.gateways, foreign.body.environments]).to.deep.equal([[], []]);
  });

  const cases: readonly (readonly [string, string, (pair: FailoverPair) => Promise<unknown>])[] = [
    ["healthy while the primary is active and both talk", "healthy", async () => {}],
    ["degraded while the active primary is silent", "degraded", (pair) => pair.primary.fallSilent(121)],
    ["degraded while no standby is healthy", "degraded", (pair) => pair.dr.fallSilent(121)],
    ["degraded while the only standby is deactivated", "degraded", (pair) => pair.deactivate(pair.dr)],
    ["degraded without a standby", "degraded", (pair) => pair.retire(pair.dr)],
    ["failed over while the DR gateway is active", "failed_over", (pair) => pair.failOver()],
    ["down when the primary failed and nobody took over", "down", (pair) => pair.fail(pair.primary)],
    ["down when the primary is deactivated", "down", (pair) => pair.deactivate(pair.primary)],
    [
      "down when the DR gateway died after its activation",
      "down",
      (pair) => pair.failOver().then(() => pair.fail(pair.dr)),
    ],
  ];
  for (const [why, status, arrange] of cases) {
    it(`calls an environment ${why}`, async () => {
      const pair = await newPair();

      await arrange(pair);

      expect((await pair.health()).status).to.equal(status);
    });
  }

  it("has no lock and no active gateway where nobody is active, and nothing stuck", async () => {
    const pair = await newPair();
    await pair.failOver();
    await pair.fail(pair.dr);
    const down = await pair.health();
    await pair.primary.heartbeat();
    const back = await pair.health();

    expect(down).to.include({ status: "down", active_gateway_id: null, lock: null, can_failback: false });
    expect(back).to.include({ status: "down", can_failback: true, can_activate_dr: false, blocked_reason: null });
    expect((await pair.failback()).status).to.equal(200);
    await pair.dr.heartbeat();
    expect((await pair.health()).status).to.equal("healthy");
  });

  it("counts the rotations that wait for a gateway or are being worked on", async () => {
    const pair = await newPair();

    const { tasks } = await withOpenTransaction(server, async (session) => {
      // No round goes by itself, which would cancel what is about no secret.
      await session.query("select 1 from gateway_monitor for update");
      await server.sql(
        `insert into gateway_task (organization_id, environment, gateway_id, type, status, config_id, secret_id, max_attempts, requested_by)
         select organization_id, environment, gateway_id, type, status, gen_random_uuid(), gen_random_uuid(), 3, 'system'
         from gateway g, (values ('rotate_secret', 'pending', null), ('rotate_secret', 'pending', $1::uuid),
           ('rotate_secret', 'running', $1), ('rotate_secret', 'failed', $1), ('verify_secret', 'pending', $2)) t (type, status, gateway_id)
         where g.id = $1
         union all
         select gen_random_uuid(), environment, null, 'rotate_secret', 'pending', gen_random_uuid(), gen_random_uuid(), 3, 'of another organization'
         from gateway where id = $1`,
        [pair.primary.id, pair.dr.id],
      );
      return pair.health();
    });

    expect(tasks).to.deep.equal({ pending: 2, running: 1 });
  });

  it("asks the database no more often for many environments than for none", async () => {
    for (let count = 0; count < 3; count += 1) await newPair();
    const foreign = await foreignOperator(server);
    // The monitor asks too, beside the calls.
    const ofCalls = (statements: string[]) =>
      statements.filter((text) => !text.startsWith("select distinct organization_id")).toSorted();

    for (const each of [path, "/api/v1/admin/gateways"]) {
      // Who calls is remembered from then on.
      await Promise.all([operator.rest("GET", each), foreign.rest("GET", each)]);
      const many = await statementsOf(server, () => operator.rest("GET", each));
      const none = await statementsOf(server, () => foreign.rest("GET", each));

      expect(ofCalls(many)).to.deep.equal(ofCalls(none)).and.not.be.empty;
    }
  });

  it("is for the role gateway:admin only", async () => {
    const admin = await server.as("admin-only", ["admin"]);
    const answers = await Promise.all([path, "/api/v1/admin/gateways"].map((each) => admin.rest("GET", each)));

    expect(answers.map(({ status }) => status)).to.deep.equal([403, 403]);
  });
});

describe("What gateway-health says of activate-dr and failback", () => {
  const none = async () => {};
  const situations: Record<string, (pair: FailoverPair) => Promise<unknown>> = {
    "all is well": none,
    "the primary is silent": (pair) => pair.primary.fallSilent(121),
    "the primary failed": (pair) => pair.fail(pair.primary),
    "the primary failed and talks again": (pair) => pair.fail(pair.primary).then(() => pair.primary.heartbeat()),
    "the primary was marked as failed": (pair) => pair.deactivate(pair.primary, { mark_failed: true }),
    "the primary was deactivated": (pair) => pair.deactivate(pair.primary),
    "the primary failed and the DR gateway is silent": (pair) =>
      pair.fail(pair.primary).then(() => pair.dr.fallSilent(121)),
    "the primary failed and the DR gateway is deactivated": (pair) =>
      pair.fail(pair.primary).then(() => pair.deactivate(pair.dr)),
    "the primary failed and there is no DR gateway": (pair) => pair.fail(pair.primary).then(() => pair.retire(pair.dr)),
    "there is no primary": (pair) => pair.deactivate(pair.primary).then(() => pair.retire(pair.primary)),
    "the DR gateway is active": (pair) => pair.failOver(),
    "the DR gateway is active and the primary is back": (pair) => pair.failOver().then(() => pair.primary.heartbeat()),
    "the DR gateway died after its activation": (pair) => pair.failOver().then(() => pair.fail(pair.dr)),
  };

  for (const [situation, arrange] of Object.entries(situations)) {
    it(`is what they do, when ${situation}`, async () => {
      const [forActivation, forFailback] = [await newPair(), await newPair()];
      await arrange(forActivation);
      await arrange(forFailback);
      const told = await forActivation.health();

      const activation = await forActivation.activateDr();
      const failback = await forFailback.failback();

      expect(told.can_activate_dr, activation.body.error?.message).to.equal(activation.status === 200);
      expect(told.can_failback, failback.body.error?.message).to.equal(failback.status === 200);
      const refusals = [activation, failback].map(({ body }) => withoutAge(body.error?.message ?? null));
      if (told.can_activate_dr || told.can_failback) expect(told.blocked_reason).to.equal(null);
      else expect(withoutAge(told.blocked_reason)).to.equal(refusals[told.status === "failed_over" ? 1 : 0]);
    });
  }
});

/** A second may pass between two that tell the age of a heartbeat. */
const withoutAge = (message: string | null) => message?.replace(/last heartbeat .* ago/, "last heartbeat … ago");
