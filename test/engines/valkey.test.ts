import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Redis } from "ioredis";
import { startValkey, type ValkeyEngine } from "../../src/engines/engines.ts";
import { eventually, survivors } from "./running.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

describe("startValkey", () => {
  let folder: string;
  let engine: ValkeyEngine;
  let redis: Redis;
  const warnings: string[] = [];

  before(async () => {
    folder = temporaryFolder();
    engine = await startValkey(folder, { warn: (message) => warnings.push(message) });
    redis = new Redis(engine.url);
    redis.on("error", () => {});
  });
  after(async () => {
    redis.disconnect();
    await engine.stop();
    expect(await survivors(folder)).to.deep.equal([]);
    removeFolder(folder);
  });

  it("holds 64 MB and refuses to write more, so that no lock is evicted", async () => {
    expect(await redis.config("GET", "maxmemory")).to.deep.equal(["maxmemory", String(64 << 20)]);
    expect(await redis.config("GET", "maxmemory-policy")).to.deep.equal(["maxmemory-policy", "noeviction"]);
  });

  it("ends a key when its time is over, and not 100 ms later", async () => {
    const began = performance.now();
    await redis.set("short", "1", "PX", 200);
    await eventually(async () => (await redis.exists("short")) === 0);

    expect(performance.now() - began).to.be.within(150, 400);
  });

  it("answers one after the other without a lag, and 200 at once", async () => {
    const began = performance.now();
    for (let n = 0; n < 100; n++) await redis.ping();
    const clients = Array.from({ length: 200 }, () => new Redis(engine.url));
    const pongs = await Promise.all(clients.map((client) => client.ping()));
    for (const client of clients) client.disconnect();

    expect(pongs.every((pong) => pong === "PONG")).to.equal(true);
    expect(performance.now() - began).to.be.below(2000);
  });

  it("gives back what is larger than any buffer on the way", async () => {
    const value = Buffer.alloc(1 << 20, "0123456789abcdefg");
    await redis.set("large", value);

    expect((await redis.getBuffer("large"))?.equals(value)).to.equal(true);
    await redis.del("large");
  });

  it("writes long replies to many clients without a lag", async () => {
    await redis.set("medium", Buffer.alloc(10_000));
    const began = performance.now();
    const rounds = Array.from({ length: 16 }, async () => {
      for (let round = 0; round < 20; round++) {
        const pipeline = redis.pipeline();
        for (let n = 0; n < 20; n++) pipeline.get("medium");
        await pipeline.exec();
      }
    });
    await Promise.all(rounds);

    expect(performance.now() - began).to.be.below(1500);
  });

  it("runs scripts, and tells subscribers at once", async () => {
    const subscriber = new Redis(engine.url);
    await subscriber.subscribe("news");
    const heard = new Promise((resolve) => subscriber.once("message", (_channel, message) => resolve(message)));

    await redis.eval("return redis.call('PUBLISH', KEYS[1], ARGV[1])", 1, "news", "hello");

    expect(await Promise.race([heard, sleep(500, "too late")])).to.equal("hello");
    subscriber.disconnect();
  });

  it("lets go of a subscriber that does not read, and has room for the others meanwhile", async () => {
    const deaf = new Redis(engine.url);
    deaf.on("error", () => {});
    await deaf.subscribe("flood");
    (deaf as unknown as { stream: { pause(): void } }).stream.pause();
    const message = Buffer.alloc(1 << 20);

    for (let n = 0; n < 80; n++) await redis.publish("flood", message);

    expect(await redis.set("k", "v")).to.equal("OK");
    await eventually(async () => (await redis.pubsub("NUMSUB", "flood"))[1] === 0);
    deaf.disconnect();
  });

  it("comes back empty after a crash, and ioredis with it", async () => {
    const { pid } = engine;
    await redis.set("k", "v");

    process.kill(pid, "SIGKILL");
    await eventually(() => engine.pid !== pid);

    expect(await redis.get("k")).to.equal(null);
    expect(await redis.config("GET", "maxmemory")).to.deep.equal(["maxmemory", String(64 << 20)]);
  });

  it("is killed and started again when an endless script blocks it", async () => {
    const { pid } = engine;
    const endless = new Redis(engine.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
    endless.on("error", () => {});
    const stuck = endless.eval("while true do end", 0).catch((error: Error) => error);

    await eventually(() => engine.pid !== pid);

    expect(await redis.ping()).to.equal("PONG");
    expect(await stuck).to.be.instanceOf(Error);
  });

  it("stays stopped after stop()", async () => {
    await engine.stop();

    expect(await survivors(folder)).to.deep.equal([]);
    await sleep(300);
    expect(await survivors(folder)).to.deep.equal([]);
  });
});
