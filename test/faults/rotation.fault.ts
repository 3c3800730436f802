import { expect } from "chai";
import { useGatewayHost } from "../gateway/gateway-host.ts";
import { useServer } from "../harness/server.ts";
import { isWaitedFor, withOpenTransaction } from "../server/gateways/open-transaction.ts";
import { until } from "./own-engines.ts";
import { RotatedSecrets } from "./rotation/rotated-secrets.ts";
import { Targets } from "./rotation/targets.ts";
import { ServerProcess } from "./server-process.ts";

/** More than go over the wire in any rotation. */
const mostPieces = 60;

describe("A server that rotates secrets at targets of all kinds", () => {
  const server = useServer({ LOG_LEVEL: "warn" });
  let targets: Targets;
  let running: ServerProcess;
  const start = async () => {
    running = new ServerProcess({ ...server.environment(), SERVICE_LOG_LEVEL: "info" });
    await running.ready();
  };
  before(async () => {
    targets = await Targets.start({ isWired: true });
    await start();
  });
  after(async () => {
    await running.kill();
    await targets.stop();
  });

  const newSecrets = () => RotatedSecrets.make(server, targets.kinds);

  /** Kills the server, and lets another one do what there is to be done. */
  async function killAndRecover(secrets: RotatedSecrets, versions = 2): Promise<void> {
    await running.kill();
    await start();
    await secrets.recover(versions);
  }

  it("and is killed at each piece that goes over the wire: the values log in all the same", async () => {
    let deaths = 0;
    for (let piece = 1, hasFailed = true; hasFailed && piece <= mostPieces; piece += 1) {
      const secrets = await newSecrets();
      for (const { target } of secrets.all) target.wire?.failAt(piece, "hold");

      await secrets.makeDue();
      await secrets.haveFailedOrEnded();
      const died = secrets.all.filter(({ target }) => target.wire?.hasFailed);
      await killAndRecover(secrets);

      await secrets.expectConsistent(`killed at piece ${piece}`);
      deaths += died.length;
      hasFailed = died.length > 0;
    }
    console.log(`      ${deaths} of ${deaths} attempts that died left values that log in`);
    expect(deaths).to.be.above(40);
  });

  it("and whose connections are cut at each piece: the same", async () => {
    let cuts = 0;
    for (let piece = 1, hasFailed = true; hasFailed && piece <= mostPieces; piece += 1) {
      const secrets = await newSecrets();
      for (const { target } of secrets.all) target.wire?.failAt(piece, "cut");

      await secrets.makeDue();
      await secrets.haveFailedOrEnded();
      const cut = secrets.all.filter(({ target }) => target.wire?.hasFailed);
      await secrets.recover(2);

      await secrets.expectConsistent(`cut at piece ${piece}`);
      cuts += cut.length;
      hasFailed = cut.length > 0;
    }
    console.log(`      ${cuts} of ${cuts} attempts that were cut left values that log in`);
    expect(cuts).to.be.above(40);
  });

  /** What somebody else has locked that the server needs for a step, whose transaction is then never committed. */
  const steps = {
    "queue a task": { locked: "rotation_config where secret_id", isQueued: false },
    "claim a task": { locked: "rotation_config where secret_id", isQueued: true },
    "commit a value that is in use": { locked: "secret where id", isQueued: true },
  };
  for (const [step, { locked, isQueued }] of Object.entries(steps)) {
    it(`and is killed while it is about to ${step}: the same`, async () => {
      const secrets = await newSecrets();

      await withOpenTransaction(server, async (session) => {
        await session.query(`select from ${locked} = any($1) for update`, [secrets.ids]);
        if (isQueued) await secrets.queue();
        else await secrets.makeDue();
        await isWaitedFor(session);
        await running.kill();
      });
      await start();
      await secrets.recover(2);

      await secrets.expectConsistent(`killed while about to ${step}`);
    });
  }

  it("and is killed right after it has committed: the same, and nothing is done twice", async () => {
    const secrets = await newSecrets();
    await secrets.makeDue();
    await until(async () => [...(await secrets.versions()).values()].every((version) => version === 2), 20_000);

    await killAndRecover(secrets);

    await secrets.expectConsistent("killed after the commit");
    expect(new Set((await secrets.versions()).values())).to.deep.equal(new Set([2]));
  });

  it("and is killed again and again, at other pieces each time: the same", async () => {
    const secrets = await newSecrets();
    const rounds = 12;
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, { target }] of secrets.all.entries()) {
        target.wire?.failAt(1 + ((7 * round + 5 * index) % 20), "hold");
      }
      const before = await secrets.versions();
      await secrets.makeDue();
      await secrets.untilInTime(async () => {
        const versions = await secrets.versions();
        return secrets.all.every(({ id, target }) => target.wire?.hasFailed || versions.get(id) !== before.get(id));
      });
      await running.kill();
      for (const { target } of secrets.all) target.wire?.mend();
      await start();
    }

    await secrets.recover(2);

    await secrets.expectConsistent(`after ${rounds} deaths`);
  });
});

describe("A gateway that rotates secrets at targets of all kinds", () => {
  const server = useServer({ LOG_LEVEL: "warn", GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
  const host = useGatewayHost(server);
  let targets: Targets;
  before(async () => {
    targets = await Targets.start({ isWired: true });
    await server.startReplica({}, ["jobs"]);
  });
  after(() => targets.stop());

  it("and is killed at each piece that goes over the wire: the values log in all the same", async () => {
    const settings = {
      ...(await host().identity()),
      OUTBOUND_ALLOWED_CIDRS: "127.0.0.0/8,::1/128",
      GATEWAY_CONCURRENCY: "16",
    };
    let gateway = await host().startConnected(settings);
    let deaths = 0;
    for (let piece = 1, hasFailed = true; hasFailed && piece <= mostPieces; piece += 1) {
      const secrets = await RotatedSecrets.make(server, targets.kinds, host().environment);
      for (const { target } of secrets.all) target.wire?.failAt(piece, "hold");

      await secrets.makeDue();
      await secrets.haveFailedOrEnded();
      const died = secrets.all.filter(({ target }) => target.wire?.hasFailed);
      await gateway.end("SIGKILL");
      // A gateway that has started anew is another one: what the former had claimed is tried again.
      for (const { target } of secrets.all) target.wire?.mend();
      gateway = await host().startConnected(settings);
      await secrets.recover(2);

      await secrets.expectConsistent(`killed at piece ${piece}`);
      deaths += died.length;
      hasFailed = died.length > 0;
    }
    console.log(`      ${deaths} of ${deaths} attempts that died left values that log in`);
    expect(deaths).to.be.above(40);
  });
});
