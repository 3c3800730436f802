import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Redis } from "ioredis";
import { startValkey, type ValkeyEngine } from "../../../src/engines/engines.ts";
import { Wakes } from "../../../src/server/wake/wakes.ts";
import { until } from "../../faults/own-engines.ts";

/** Two replicas on one Redis. */
class Replicas {
  readonly #publishers: Redis[] = [];
  readonly here: Wakes;
  readonly there: Wakes;

  constructor(url: string) {
    this.here = this.#connect(url);
    this.there = this.#connect(url);
  }

  #connect(url: string): Wakes {
    const publisher = new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 1, commandTimeout: 200 });
    publisher.on("error", () => {});
    this.#publishers.push(publisher);
    return new Wakes(publisher, url);
  }

  /** Wakes again and again until somebody has heard: what is said before a connection is up is lost. */
  async wakeUntilHeard(by: Wakes, topic: string, heard: () => number): Promise<void> {
    const before = heard();
    await until(async () => {
      by.wake(topic);
      await sleep(20);
      return heard() > before;
    });
  }

  close(): void {
    this.here.close();
    this.there.close();
    for (const publisher of this.#publishers) publisher.disconnect();
  }
}

describe("Wakes", () => {
  let folder: string;
  let valkey: ValkeyEngine;
  let replicas: Replicas;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    valkey = await startValkey(folder);
  });
  after(async () => {
    await valkey.stop();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    replicas = new Replicas(valkey.url);
  });
  afterEach(() => replicas.close());

  /** Counts how often a topic is woken. */
  const listen = (wakes: Wakes, topic: string) => {
    let times = 0;
    const stop = wakes.on(topic, () => {
      times += 1;
    });
    return { heard: () => times, stop };
  };

  it("reach who waits on the same replica at once", () => {
    const { heard } = listen(replicas.here, "topic");

    replicas.here.wake("topic");

    expect(heard()).to.equal(1);
  });

  it("reach all who wait for the topic on other replicas, and nobody else", async () => {
    const one = listen(replicas.there, "topic");
    const other = listen(replicas.there, "topic");
    const elsewhere = listen(replicas.there, "topic:longer");

    await replicas.wakeUntilHeard(replicas.here, "topic", one.heard);

    expect(other.heard()).to.equal(one.heard());
    expect(elsewhere.heard()).to.equal(0);
  });

  it("reach nobody who has stopped waiting, and still the others", async () => {
    const leaving = listen(replicas.there, "topic");
    const staying = listen(replicas.there, "topic");
    leaving.stop();

    await replicas.wakeUntilHeard(replicas.here, "topic", staying.heard);

    expect(leaving.heard()).to.equal(0);
  });

  it("bear that a listener stops waiting while it is woken", () => {
    const others = listen(replicas.here, "topic");
    const stop = replicas.here.on("topic", () => stop());
    const last = listen(replicas.here, "topic");

    replicas.here.wake("topic");

    expect([others.heard(), last.heard()]).to.deep.equal([1, 1]);
  });

  it("reach those of the same replica while Redis is away, and all again when it is back", async () => {
    const here = listen(replicas.here, "topic");
    const there = listen(replicas.there, "topic");
    await replicas.wakeUntilHeard(replicas.here, "topic", there.heard);

    await valkey.stop();
    const heardHere = here.heard();
    for (let round = 0; round < 3; round += 1) replicas.here.wake("topic");
    const heardAway = here.heard() - heardHere;
    valkey = await startValkey(folder);
    await replicas.wakeUntilHeard(replicas.here, "topic", there.heard);

    expect(heardAway).to.equal(3);
  });

  it("listen once Redis is there, when it was away at the start", async () => {
    await valkey.stop();
    const late = new Replicas(valkey.url);
    const { heard } = listen(late.there, "topic");

    valkey = await startValkey(folder);
    await late.wakeUntilHeard(late.here, "topic", heard);
    late.close();

    expect(heard()).to.be.greaterThan(0);
  });
});
