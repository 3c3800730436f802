import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status as code, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { startValkey, type ValkeyEngine } from "../../../src/engines/engines.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { FailoverPair } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const contenders = 20;
const rounds = 5;

describe("Failover operations at the same time on three replicas", function () {
  this.timeout(60_000);
  const server = useServer();
  let operators: Client[];
  before(async () => {
    const { token } = await server.as("operator", ["gateway:admin"]);
    const urls = [server.url, urlOf(await server.startReplica()), urlOf(await server.startReplica())];
    operators = urls.map((url) => new Client(url, token));
  });

  const newPair = () => FailoverPair.register(server, operators[0] as Client);
  const each = (ask: (by: Client, index: number) => Promise<Answer>) =>
    Promise.all(Array.from({ length: contenders }, (_, index) => ask(operators[index % 3] as Client, index)));
  const outcomes = (answers: readonly Answer[]) => ({
    succeeded: answers.filter(({ status }) => status === 200).length,
    conflicts: answers.filter(({ status }) => status === 409).length,
  });
  const reasons = (answers: readonly Answer[]) =>
    new Set(answers.flatMap(({ body }) => body.error?.message.replace(/: .*/, "") ?? []));
  /** What the database says of who is active, who holds the lock, and under which token. */
  const truth = ({ environment }: FailoverPair) =>
    server.sql(
      `select g.id, l.fencing_token as token from gateway g
       full join environment_lock l on l.holder_id = g.id and l.environment = g.environment
       where coalesce(g.environment, l.environment) = $1 and (g.activation_status = 'active' or l.environment is not null)`,
      [environment],
    );

  it("activate the DR gateway once, and refuse all the others", async () => {
    for (let round = 0; round < rounds; round += 1) {
      const pair = await newPair();
      await pair.fail(pair.primary);

      const answers = await each((by) => pair.activateDr({}, by));

      expect(outcomes(answers)).to.deep.equal({ succeeded: 1, conflicts: contenders - 1 });
      const known = ["another failover operation is in progress", "DR gateway is already active"];
      expect([...reasons(answers)].filter((reason) => !known.includes(reason))).to.deep.equal([]);
      const token = answers.find(({ status }) => status === 200)?.body.fencing_token;
      expect(await truth(pair)).to.deep.equal([{ id: pair.dr.id, token }]);
    }
  });

  it("return to the primary once, and refuse all the others", async () => {
    for (let round = 0; round < rounds; round += 1) {
      const pair = await newPair();
      await pair.failOver();
      await pair.primary.heartbeat();

      const answers = await each((by) => pair.failback({}, by));

      expect(outcomes(answers)).to.deep.equal({ succeeded: 1, conflicts: contenders - 1 });
      const known = ["another failover operation is in progress", "primary is already active"];
      expect([...reasons(answers)].filter((reason) => !known.includes(reason))).to.deep.equal([]);
      await pair.primary.heartbeat();
      expect(await truth(pair)).to.deep.equal([{ id: pair.primary.id, token: pair.primary.token }]);
    }
  });

  it("never do that of activate-dr and failback which may not be done", async () => {
    for (let round = 0; round < rounds; round += 1) {
      const [failed, failedOver] = [await newPair(), await newPair()];
      await failed.fail(failed.primary);
      await failedOver.failOver();
      await failedOver.primary.heartbeat();

      for (const [pair, active, possible] of [
        [failed, failed.dr, 0],
        [failedOver, failedOver.primary, 1],
      ] as const) {
        const answers = await each((by, index) => (index % 2 === 0 ? pair.activateDr({}, by) : pair.failback({}, by)));
        // The one that may not be done may have kept all of the others out.
        const again = possible === 0 ? await pair.activateDr() : await pair.failback();

        const { succeeded, conflicts } = outcomes([...answers, again]);
        expect({ succeeded, conflicts }).to.deep.equal({ succeeded: 1, conflicts: contenders });
        const impossible = answers.filter((_, index) => index % 2 !== possible);
        expect(outcomes(impossible).succeeded).to.equal(0);
        await active.heartbeat();
        expect(await truth(pair)).to.deep.equal([{ id: active.id, token: active.token }]);
      }
    }
  });

  it("do each of activate-dr and failback at most once, one after the other, where both may be done", async () => {
    for (let round = 0; round < rounds; round += 1) {
      const pair = await newPair();
      await pair.deactivate(pair.primary, { mark_failed: true });

      const answers = await each((by, index) => (index % 2 === 0 ? pair.activateDr({}, by) : pair.failback({}, by)));

      const succeededBy = [0, 1].map((operation) =>
        answers.filter(({ status }, index) => status === 200 && index % 2 === operation),
      );
      for (const succeeded of succeededBy) expect(succeeded).to.have.length.at.most(1);
      const { succeeded, conflicts } = outcomes(answers);
      expect(succeeded).to.be.within(1, 2);
      expect(succeeded + conflicts).to.equal(contenders);
      // After a failback no DR gateway is activated.
      const active = succeededBy[1]?.length === 1 ? pair.primary : pair.dr;
      await active.heartbeat();
      expect(await truth(pair)).to.deep.equal([{ id: active.id, token: active.token }]);
    }
  });

  it("leave one active whoever else comes in: a new primary, a restart, a deactivation, the monitor", async () => {
    for (let round = 0; round < rounds; round += 1) {
      const pair = await newPair();
      await pair.fail(pair.primary);
      const other = await TestGateway.prepare(server, { environment: pair.environment });

      await Promise.all([
        ...operators.map((by) => pair.activateDr({}, by)),
        ...operators.map((by) => pair.failback({}, by)),
        other.register(),
        pair.dr.restart(),
        pair.dr.heartbeat().catch(() => {}),
        pair.deactivate(pair.primary),
        pair.fail(pair.primary),
      ]);

      const rows = await truth(pair);
      const active = await server.sql(
        "select id from gateway where environment = $1 and activation_status = 'active'",
        [pair.environment],
      );
      expect(rows).to.have.length(1);
      expect(active.map(({ id }) => id)).to.deep.equal(rows.flatMap(({ id }) => id ?? []));
    }
  });

  it("restart two instances of the active gateway to two tokens, of which the last one counts", async () => {
    const pair = await newPair();
    const first = pair.primary.at(server.url);
    const second = pair.primary.at((operators[1] as Client).url);

    await Promise.all([first.restart(), second.restart()]);

    const beats = await Promise.all(
      [first, second].map((instance) =>
        instance.heartbeat().then(
          ({ fencingToken }) => fencingToken,
          (error: ServiceError) => error.code,
        ),
      ),
    );
    const [{ token }] = await truth(pair);
    expect(beats).to.have.members([token, code.ABORTED]);
    expect(BigInt(first.token ?? 0) === BigInt(second.token ?? 0)).to.equal(false);
  });
});

describe("Failover operations while Redis is away", () => {
  const settings: Record<string, string> = {};
  let folder: string;
  let valkey: ValkeyEngine;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    valkey = await startValkey(folder);
    settings["REDIS_URL"] = valkey.url;
  });
  const server = useServer(settings);
  after(() => rm(folder, { recursive: true, force: true }));

  it("are refused with 503 and change nothing; deactivating goes on", async () => {
    const operator = await server.as("operator", ["gateway:admin"]);
    const [failed, failedOver] = [
      await FailoverPair.register(server, operator),
      await FailoverPair.register(server, operator),
    ];
    await failed.fail(failed.primary);
    await failedOver.failOver();
    await failedOver.primary.heartbeat();
    await valkey.stop();

    const answers = [await failed.activateDr(), await failedOver.failback()];
    const unchanged = [
      await failed.statuses(failed.primary, failed.dr),
      await failedOver.statuses(failedOver.primary, failedOver.dr),
    ];
    const deactivated = await failedOver.deactivate(failedOver.dr);

    for (const { status, body } of answers) {
      expect([status, body.error.code]).to.deep.equal([503, "SERVICE_UNAVAILABLE"]);
      expect(body.error.message).to.equal("the lock service cannot be reached");
    }
    expect(unchanged).to.deep.equal([
      ["failed", "standby"],
      ["failed", "active"],
    ]);
    expect([deactivated.status, deactivated.body.activation_status]).to.deep.equal([200, "standby"]);
  });
});
