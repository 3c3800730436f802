import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { monitorRound } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { randomFrom } from "../../harness/random.ts";
import { Receiver } from "../../harness/receiver.ts";
import { useServer } from "../../harness/server.ts";
import { answers } from "../../harness/trouble.ts";
import { isWaitedFor, withOpenTransaction } from "../gateways/open-transaction.ts";
import { timeOut } from "../gateways/rotations.ts";
import { byCommand, byWebhook, Configurations, pushTo } from "./configurations.ts";
import { keptCandidates } from "./kept-candidates.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const kept = (secretId: string) => keptCandidates(server, secretId);
const forgotten = { candidate: undefined, attempts: 0, unresolved: false, earlier: [] };

/** A secret that a gateway rotates. */
async function rotated(fields: Record<string, unknown> = byCommand) {
  const environment = `environment-${randomUUID().slice(0, 8)}`;
  const gateway = await TestGateway.register(server, { environment });
  const { secret, config } = await configurations.of(fields, { environment, value: "first" });
  const begin = () => configurations.execute(config.id, operator);
  const claim = async (): Promise<Assignment> => {
    const assignment = await gateway.claim();
    if (assignment === undefined) throw new Error("there is nothing to claim");
    return assignment;
  };
  /** An attempt that fails, and what it was given. */
  const fail = async (unchanged = false): Promise<Assignment> => {
    const assignment = await claim();
    await gateway.complete(assignment, { case: "failed", value: { message: "no", unchanged } });
    return assignment;
  };
  /** All attempts of a rotation fail. */
  const failAll = async (unchanged = false): Promise<Assignment> => {
    await begin();
    await fail(unchanged);
    await fail(unchanged);
    return fail(unchanged);
  };
  return { environment, gateway, secret, config, begin, claim, fail, failAll };
}

describe("Candidates that a gateway's target may have", () => {
  it("are given with the next one once they are given up, the newest first", async () => {
    const { secret, begin, claim, failAll } = await rotated();
    const first = await failAll();
    const second = await failAll();

    await begin();
    const third = await claim();

    expect(new Set([first.value, second.value, third.value]).size).to.equal(3);
    expect(second.earlierCandidates).to.deep.equal([first.value]);
    expect(third.earlierCandidates).to.deep.equal([second.value, first.value]);
    expect(third.previousValue).to.equal("first");
    expect(await kept(secret.id)).to.deep.include({ candidate: third.value, attempts: 1, unresolved: true });
  });

  it("are none where the gateway is certain at each attempt that the target is as it was", async () => {
    const { secret, begin, claim, failAll } = await rotated();
    const first = await failAll(true);
    const between = await kept(secret.id);

    await begin();
    const second = await claim();

    expect(between).to.deep.equal({ candidate: first.value, attempts: 3, unresolved: false, earlier: [] });
    expect(second.value).not.to.equal(first.value);
    expect(second.earlierCandidates).to.deep.equal([]);
  });

  it("are known of from one attempt without a certain end, whatever the last one says", async () => {
    const ends: ((given: Awaited<ReturnType<typeof rotated>>) => Promise<unknown>)[] = [
      ({ fail }) => fail(false),
      async ({ claim }) => timeOut(server, (await claim()).taskId),
      async ({ environment, gateway, claim }) => {
        await claim();
        const dr = await TestGateway.register(server, { environment, role: "dr-standby" });
        await operator.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, { mark_failed: true });
        await operator.rest("POST", `/api/v1/admin/failover/${environment}/activate-dr`, {});
        await dr.heartbeat();
      },
    ];
    for (const end of ends) {
      const given = await rotated();
      await given.begin();

      await end(given);

      expect(await kept(given.secret.id), String(end)).to.include({ attempts: 1, unresolved: true });
    }
  });

  it("outlive a rotation that is cancelled", async () => {
    const { secret, begin, claim, fail } = await rotated();
    await begin();
    const first = await fail();
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/archive`);
    await monitorRound(server);
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/restore`);

    await begin();
    const second = await claim();

    expect(second.value).to.equal(first.value);
    expect(await kept(secret.id)).to.include({ attempts: 2, unresolved: true });
  });

  it("are looked at soon when a rotation is cancelled, as nobody else is about to", async () => {
    const [unsure, sure] = [await rotated(), await rotated()];
    for (const { secret, begin, fail } of [unsure, sure]) {
      await begin();
      await fail(secret.id === sure.secret.id);
      await configurations.put(secret.id, { gateway_environment: "elsewhere" });
    }

    await monitorRound(server);

    const due = async ({ secret }: { secret: { id: string } }) =>
      (await server.sql("select rotation_due_at <= now() as due from secret where id = $1", [secret.id]))[0].due;
    expect([await due(unsure), await due(sure)]).to.deep.equal([true, null]);
  });

  it("are forgotten with a success", async () => {
    const { gateway, secret, begin, claim, failAll } = await rotated();
    await failAll();
    await failAll();
    await begin();
    const last = await claim();

    await gateway.complete(last);

    expect(await read(secret.id)).to.include({ version: 2, value: last.value });
    expect(await kept(secret.id)).to.deep.equal(forgotten);
  });

  it("are at most five: then the candidate is not given up any more", async () => {
    const { secret, failAll } = await rotated();
    const values: string[] = [];
    for (let rotation = 0; rotation < 8; rotation += 1) values.push((await failAll()).value);

    const { candidate, earlier } = await kept(secret.id);

    expect(earlier).to.deep.equal(values.slice(0, 5).toReversed());
    expect(values.slice(5)).to.deep.equal(Array(3).fill(candidate));
  });
});

describe("A candidate, when the settings change", () => {
  const hex = { ...byCommand, provider_settings: { ...byCommand.provider_settings, charset: "hex" } };

  it("is remembered if the target may have it, and forgotten otherwise", async () => {
    const unsure = await rotated();
    const sure = await rotated();
    const { value } = await unsure.failAll();
    await sure.failAll(true);

    for (const { secret } of [unsure, sure]) await configurations.put(secret.id, hex);

    expect(await kept(unsure.secret.id)).to.deep.equal({ ...forgotten, unresolved: true, earlier: [value] });
    expect(await kept(sure.secret.id)).to.deep.equal(forgotten);
    await unsure.begin();
    expect((await unsure.claim()).value).to.match(/^[0-9a-f]{32}$/);
  });

  it("stays when it is about credentials or times only", async () => {
    const { secret, failAll } = await rotated();
    const { value } = await failAll();

    await configurations.put(secret.id, { credentials: { password: "p" } });
    await configurations.put(secret.id, { enabled: true, interval: 5, grace_period_days: 1 });

    expect(await kept(secret.id)).to.deep.equal({ candidate: value, attempts: 3, unresolved: true, earlier: [] });
  });

  it("is nothing that another driver or provider is in doubt of, but is remembered for whoever comes back", async () => {
    for (const other of [byWebhook(), { provider: "generated_value" }, pushTo("https://rotate.example.com/hook")]) {
      const { secret, failAll } = await rotated();
      const first = await failAll();
      const second = await failAll();

      await configurations.put(secret.id, other);

      const earlier = [second.value, first.value];
      expect(await kept(secret.id), JSON.stringify(other)).to.deep.equal({ ...forgotten, earlier });
    }
  });

  it("is remembered when the server goes on with what a gateway did by the same driver, and the other way round", async () => {
    const { secret, failAll } = await rotated(byWebhook());
    const { value } = await failAll();
    const remembered = { ...forgotten, unresolved: true, earlier: [value] };

    await configurations.put(secret.id, pushTo("https://rotate.example.com/hook"));
    const byServer = await kept(secret.id);
    await configurations.put(secret.id, byWebhook());

    expect(byServer).to.deep.equal(remembered);
    expect(await kept(secret.id)).to.deep.equal(remembered);
  });

  it("is handed out by those that are being saved at this moment", async () => {
    const { gateway, config, begin } = await rotated();
    await begin();
    const assignment = await withOpenTransaction(server, async (session) => {
      await session.query(
        'update rotation_config set provider_settings = provider_settings || \'{"charset": "hex"}\' where id = $1',
        [config.id],
      );
      const claim = gateway.claim();
      await isWaitedFor(session);
      await session.query("commit");
      return claim;
    });

    expect(assignment?.value).to.match(/^[0-9a-f]{32}$/);
  });

  it("stays while an attempt is under way, which may succeed with it", async () => {
    for (const other of [hex, byWebhook({ mode: "mint" })]) {
      const { gateway, secret, begin, claim } = await rotated();
      await begin();
      const assignment = await claim();

      await configurations.put(secret.id, other);
      await gateway.complete(assignment);

      expect((await read(secret.id)).value).to.equal(assignment.value);
      expect(await kept(secret.id)).to.deep.equal(forgotten);
    }
  });
});

describe("What is kept of candidates beside the current value", () => {
  it("always holds the value that a target has, which takes values or not and says so or not", async function () {
    this.timeout(120_000);
    const ends = { succeeded: 0, failed: 0 };
    for (let seed = 1; seed <= 3; seed += 1) {
      const random = randomFrom(seed);
      const target = await Receiver.start();
      const { secret } = await configurations.of(pushTo(target.url()), { value: "first" });
      let held = "first";
      target.behave(({ body }) => {
        const roll = random();
        if (body.event === "rotation.verify") return roll < 0.5 && body.value === held ? undefined : answers(500);
        if (roll < 0.3) return answers(422);
        if (roll < 0.75) held = body.value;
        return roll < 0.6 ? undefined : answers(500);
      });
      for (let step = 0; step < 40; step += 1) {
        if (random() < 0.1) await configurations.put(secret.id, { settings: { url: target.url(`/${step}`) } });
        const { status } = await configurations.rotate(secret.id);
        ends[status === 200 ? "succeeded" : "failed"] += 1;

        const { candidate, earlier } = await kept(secret.id);
        expect([(await read(secret.id)).value, candidate, ...earlier], `seed ${seed}, step ${step}`).to.include(held);
      }
      await target.stop();
    }

    expect(ends.succeeded).to.be.above(0);
    expect(ends.failed).to.be.above(50);
  });
});
