import { status as code, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { until } from "../../faults/own-engines.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { isWaitedFor, withOpenTransaction } from "./open-transaction.ts";
import { failOver, gatewaySecret, type Pair, pair, queueCheck, rotate, taskOf, valueOf } from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });

/** What the transaction of a takeover does once it has the lock of the environment. */
const takeOver = `with stands as (
    update gateway set activation_status = case id when $2 then 'active' else 'standby' end
    where environment = $1 and role = 'dr-standby'),
  lock as (
    update environment_lock set holder_id = $2, fencing_token = last_token + 1, last_token = last_token + 1
    where environment = $1)
  update gateway_task set gateway_id = $2 where environment = $1 and status = 'pending'`;

/** Lets the DR gateway take over while somebody calls, who began when that had begun; answers what became of the call. */
const duringTakeover = ({ environment, primary, dr }: Pair, call: () => Promise<unknown>): Promise<unknown> =>
  withOpenTransaction(server, async (session) => {
    await session.query("select 1 from environment_lock where environment = $1 for update", [environment]);
    const answer = call().catch(({ code: refusal, details }: ServiceError) => [refusal, details]);
    await isWaitedFor(session);
    await session.query("update gateway set activation_status = 'failed' where id = $1", [primary.id]);
    await session.query(takeOver, [environment, dr.id]);
    await session.query("commit");
    return answer;
  });

describe("While another gateway takes over", () => {
  const stale = [code.ABORTED, "stale fencing token"];

  it("a rotation that is asked for waits, and goes to that one", async () => {
    const made = await pair(server);
    const secret = await gatewaySecret(server, made.environment);

    const taskId = (await duringTakeover(made, () => rotate(server.admin, secret))) as string;
    await made.dr.heartbeat();

    expect((await made.dr.claim())?.taskId).to.equal(taskId);
  });

  it("a claim waits, and is refused", async () => {
    const made = await pair(server);
    const taskId = await rotate(server.admin, await gatewaySecret(server, made.environment));

    const answer = await duringTakeover(made, () => made.primary.claim());

    expect(answer).to.deep.equal(stale);
    expect(await taskOf(server.admin, made.dr, taskId)).to.include({ status: "pending", attempt: 1 });
  });

  it("a report waits, and is refused", async () => {
    const made = await pair(server);
    const secret = await gatewaySecret(server, made.environment);
    const before = await valueOf(server, secret);
    await rotate(server.admin, secret);
    const task = (await made.primary.claim()) as Assignment;

    const answer = await duringTakeover(made, () => made.primary.complete(task));

    expect(answer).to.deep.equal(stale);
    expect(await valueOf(server, secret)).to.deep.equal(before);
  });
});

describe("While its gateway registers anew", () => {
  it("a report under the token of before waits, and is refused", async () => {
    const made = await pair(server);
    const secret = await gatewaySecret(server, made.environment);
    const before = await valueOf(server, secret);
    await rotate(server.admin, secret);
    const task = (await made.primary.claim()) as Assignment;

    const answer = await withOpenTransaction(server, async (session) => {
      await session.query(
        "update environment_lock set fencing_token = last_token + 1, last_token = last_token + 1 where environment = $1",
        [made.environment],
      );
      const report = refusalOf(made.primary.complete(task));
      await isWaitedFor(session);
      await session.query("commit");
      return report;
    });

    expect(answer).to.equal("RESOURCE_CONFLICT: stale fencing token");
    expect(await valueOf(server, secret)).to.deep.equal(before);
  });

  const changes: [string, string][] = [
    ["another process registers as its gateway", "instance_id = gen_random_uuid()"],
    ["its gateway is deactivated", "deactivated_at = now()"],
  ];
  for (const [what, change] of changes) {
    it(`a claim of a check waits while ${what}, and finds none`, async () => {
      const { environment, dr } = await pair(server);
      const taskId = await queueCheck(server, dr, await gatewaySecret(server, environment));

      const claimed = await withOpenTransaction(server, async (session) => {
        await session.query("select 1 from environment_lock where environment = $1 for update", [environment]);
        const claim = dr.claim();
        await isWaitedFor(session);
        await session.query(`update gateway set ${change} where id = $1`, [dr.id]);
        await session.query("commit");
        return claim;
      });

      expect(claimed).to.equal(undefined);
      expect(await taskOf(server.admin, dr, taskId)).to.include({ status: "pending" });
    });
  }
});

describe("Those who change which gateway is active", () => {
  it("judge by heartbeats that stay as they are: those that come meanwhile wait", async () => {
    const { environment, primary, dr } = await pair(server);
    const taskId = await rotate(server.admin, await gatewaySecret(server, environment));
    await server.admin.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, { mark_failed: true });
    const path = `/api/v1/admin/failover/${environment}/activate-dr`;

    const answers = await withOpenTransaction(server, async (session) => {
      // Moved by who takes over, once that has judged.
      await session.query("select 1 from gateway_task where id = $1 for update", [taskId]);
      const failover = server.admin.rest("POST", path, {});
      await isWaitedFor(session);
      const beats = Promise.all([primary.heartbeat(), dr.heartbeat()]);
      await until(async () => {
        const waiting = await server.sql(
          `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
             and query like 'update gateway g set last_heartbeat%'`,
        );
        return waiting.length === 2;
      });
      await session.query("commit");
      return [(await failover).status, ...(await beats).map(({ activationStatus }) => activationStatus)];
    });

    expect(answers).to.deep.equal([200, "failed", "active"]);
  });

  it("leave as it is what is cancelled meanwhile", async () => {
    const { environment, primary } = await pair(server);
    const taskId = await rotate(server.admin, await gatewaySecret(server, environment));

    const { status } = await withOpenTransaction(server, async (session) => {
      await session.query("update gateway_task set status = 'cancelled', finished_at = now() where id = $1", [taskId]);
      const deactivating = server.admin.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, {});
      await isWaitedFor(session);
      await session.query("commit");
      return deactivating;
    });

    expect(status).to.equal(200);
    expect(await taskOf(server.admin, primary, taskId)).to.include({ status: "cancelled", gateway_id: primary.id });
  });

  it("leave alone what other gateways check", async () => {
    const made = await pair(server);
    const other = await TestGateway.register(server, { environment: made.environment, role: "dr-standby" });
    await queueCheck(server, other, await gatewaySecret(server, made.environment));
    const check = (await other.claim()) as Assignment;
    await other.fallSilent(60);

    await failOver(server.admin, made);

    expect((await other.complete(check)).status).to.equal("succeeded");
  });

  it("wait for who claims at that moment, and for each other", async () => {
    const { environment, primary } = await pair(server);
    const deactivate = () => server.admin.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, {});

    const answers = await withOpenTransaction(server, async (session) => {
      await session.query("select 1 from environment_lock where environment = $1 for share", [environment]);
      const both = Promise.all([deactivate(), deactivate()]);
      await isWaitedFor(session);
      await session.query("commit");
      return both;
    });

    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200]);
  });
});
