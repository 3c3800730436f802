import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { eventually } from "../harness/program.ts";
import { randomFrom } from "../harness/random.ts";
import { useServer } from "../harness/server.ts";
import { hangs } from "../harness/trouble.ts";
import { LinksAmongOthers } from "../server/links/foreign-entries.ts";
import { Place } from "../server/links/link-model.ts";
import { Links, toWebhook } from "../server/links/links.ts";
import { sharedPlaces } from "../server/links/shared-places.ts";
import { ServerProcess } from "./server-process.ts";

const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const steps = 3000;
const rounds = 20;
/** From the start of a round to the kill. */
const longestMs = 1500;

describe("Links over a long time", () => {
  const server = useServer({ LOG_LEVEL: "warn" });
  const links = new Links(server);

  it(`touch nothing that others have made, nor what links have left: seed ${seed}`, async function () {
    this.timeout(3_600_000);
    const places = await sharedPlaces();
    const workers = [links.work(20), links.work(20)];
    const among = new LinksAmongOthers(server, links, places, seed);

    await among.run(steps);

    expect(among.counts.synced).to.be.above(steps / 10);
    expect(among.counts.foreign).to.be.above(steps / 10);
    await Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all(places.map((place) => place.stop()));
  });

  it(`are brought up to date by whoever is left when servers are killed amid writes: seed ${seed}`, async function () {
    this.timeout(600_000);
    const random = randomFrom(seed);
    const receiver = await links.receiver();
    const place = new Place(receiver);
    place.mood = "slow";
    const first = await links.of(toWebhook(receiver.url("/0")));
    const made = [first];
    for (let path = 1; path < 10; path += 1)
      made.push((await links.post(first.secret_id, toWebhook(receiver.url(`/${path}`)))).body);
    const environment = { ...server.environment(), SERVICE_LOG_LEVEL: "info" };
    for (let round = 1; round <= rounds; round += 1) {
      const running = new ServerProcess(environment);
      await running.ready();
      const kill = sleep(random() * longestMs).then(() => running.kill());
      for (let write = 0; write < 5; write += 1) await links.write(first, `round ${round}, write ${write}`);
      await kill;
      // The time of claims passes that nobody will report any more.
      await server.sql("update secret_link set due_at = now() where claim_id is not null");
    }
    const last = new ServerProcess(environment);
    await last.ready();

    const version = 1 + 5 * rounds;
    await Promise.all(made.map((link) => links.synced(link, version)));
    await last.kill();

    for (const path of made.keys()) expect(place.held.get(`/${path}`)).to.equal(`round ${rounds}, write 4`);
  });

  it("give up an attempt after 30 s, and say so", async function () {
    this.timeout(120_000);
    const worker = links.work(20);
    const receiver = await links.receiver();
    receiver.behave(() => hangs({ done: true }));
    const link = await links.of(toWebhook(receiver.url()));

    const failed = await eventually("the attempt has failed", async () => {
      const now = await links.get(link);
      return now.status === "failed" ? now : undefined;
    });

    expect(failed.last_error.code).to.equal("timed_out");
    await worker.stop();
  });
});
