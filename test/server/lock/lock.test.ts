import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Redis } from "ioredis";
import { startValkey, type ValkeyEngine } from "../../../src/engines/engines.ts";
import { LockHeld, Locks, LockUnavailable } from "../../../src/server/lock/lock.ts";
import { until } from "../../faults/own-engines.ts";

const shortLeaseMs = 600;

describe("Locks.hold", () => {
  let folder: string;
  let nodes: ValkeyEngine[];
  let replicas: Locks[];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-lock-"));
    nodes = await Promise.all(["1", "2", "3"].map((name) => startValkey(join(folder, name), { warn: () => {} })));
  });
  after(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    replicas = [];
  });
  afterEach(() => Promise.all(replicas.map((replica) => replica.close())));

  /** A replica that knows these nodes. */
  const replica = (...urls: (ValkeyEngine | string)[]) => replicaWith(5000, urls);
  const shortLived = (...urls: ValkeyEngine[]) => replicaWith(shortLeaseMs, urls);
  const replicaWith = (leaseMs: number, nodesOrUrls: readonly (ValkeyEngine | string)[]) => {
    const urls = nodesOrUrls.map((node) => (typeof node === "string" ? node : node.url));
    const locks = new Locks(urls, leaseMs);
    replicas.push(locks);
    return locks;
  };
  /** A node that is slow for a moment makes a holder or a contender give up; well before a lease ends it works. */
  const eventuallyHolds = (locks: Locks, name: string) =>
    until(async () => (await failure(locks.hold(name, async () => {}))) === "it succeeded", 3000);
  const dead = () => join(folder, "nowhere.sock");
  const [one, two, three] = [0, 1, 2].map((at) => () => nodes[at] as ValkeyEngine) as [
    () => ValkeyEngine,
    () => ValkeyEngine,
    () => ValkeyEngine,
  ];
  const failure = (work: Promise<unknown>) =>
    work.then(
      () => "it succeeded",
      (error: Error) => error.constructor,
    );

  for (const [how, urls] of [
    ["one node", () => [one()]],
    ["three nodes", () => [one(), two(), three()]],
    ["three nodes of which one is dead", () => [one(), dead(), three()]],
  ] as const) {
    it(`lets one holder in and turns the other away at once, on ${how}`, async () => {
      const [first, second] = [replica(...urls()), replica(...urls())];

      const answer = await first.hold("failover", async () => {
        const start = performance.now();
        const other = await failure(second.hold("failover", async () => {}));
        return { other, ms: performance.now() - start };
      });
      await eventuallyHolds(second, "failover");

      expect(answer.other).to.equal(LockHeld);
      expect(answer.ms).to.be.below(1500);
    });
  }

  it("lets at most one of many in that ask at once", async () => {
    const contenders = Array.from({ length: 8 }, () => replica(one(), two(), three()));
    let inside = 0;
    let most = 0;

    await Promise.all(
      contenders.map(async (each) => {
        for (let round = 0; round < 5; round++) {
          await failure(
            each.hold("contended", async () => {
              inside += 1;
              most = Math.max(most, inside);
              await sleep(10);
              inside -= 1;
            }),
          );
        }
      }),
    );

    expect(most).to.equal(1);
  });

  it("keeps different names apart", async () => {
    const [first, second] = [replica(one()), replica(one())];

    const inner = await first.hold("a", () => second.hold("b", async () => "both"));

    expect(inner).to.equal("both");
  });

  it("keeps the lock as long as the work runs, however short its lease is", async () => {
    const [first, second] = [shortLived(one()), shortLived(one())];

    const other = await first.hold("long", async (signal) => {
      await sleep(3 * shortLeaseMs);
      expect(signal.aborted).to.equal(false);
      return failure(second.hold("long", async () => {}));
    });

    expect(other).to.equal(LockHeld);
  });

  it("gives the lock back when the work fails, and passes the failure on", async () => {
    const [first, second] = [replica(one()), replica(one())];

    const failed = await failure(first.hold("fails", () => Promise.reject(new RangeError("of the work"))));
    await eventuallyHolds(second, "fails");

    expect(failed).to.equal(RangeError);
  });

  it("tells the work that the lock is lost", async () => {
    const redis = new Redis(one().url);

    const aborted = await shortLived(one()).hold("lost", async (signal) => {
      await redis.del("lock:lost");
      await sleep(shortLeaseMs);
      return signal.aborted;
    });
    redis.disconnect();

    expect(aborted).to.equal(true);
  });

  it("does not take another's lock away when its own is lost", async () => {
    const redis = new Redis(one().url);
    const [first, second] = [replica(one()), replica(one())];
    let theirs: Promise<unknown> | undefined;
    const done = Promise.withResolvers<void>();

    await first.hold("stolen", async () => {
      await redis.del("lock:stolen");
      await new Promise<void>((entered) => {
        theirs = second.hold("stolen", async () => {
          entered();
          await done.promise;
        });
      });
    });
    const third = await failure(first.hold("stolen", async () => {}));
    done.resolve();
    await theirs;
    redis.disconnect();

    expect(third).to.equal(LockHeld);
  });

  it("refuses when most of its nodes are dead, and leaves nothing locked", async () => {
    const redis = new Redis(one().url);

    const refused = await Promise.all([
      failure(replica(dead()).hold("no node", async () => {})),
      failure(replica(one(), dead(), `${dead()}2`).hold("one of three", async () => {})),
    ]);
    const left = await redis.exists("lock:one of three");
    redis.disconnect();

    expect(refused).to.deep.equal([LockUnavailable, LockUnavailable]);
    expect(left).to.equal(0);
  });

  it("refuses in time while its node hangs, and works again when that answers", async () => {
    const locks = replica(two());
    await locks.hold("hangs", async () => {});
    process.kill(two().pid, "SIGSTOP");

    const start = performance.now();
    const refused = await failure(locks.hold("hangs", async () => {}));
    const ms = performance.now() - start;
    process.kill(two().pid, "SIGCONT");
    await eventuallyHolds(locks, "hangs");

    expect(refused).to.equal(LockUnavailable);
    expect(ms).to.be.below(1500);
  });
});
