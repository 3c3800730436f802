import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { randomFrom } from "../harness/random.ts";
import { useServer } from "../harness/server.ts";
import { Authorities } from "../server/certificates/authorities.ts";
import { Crls } from "../server/certificates/crls.ts";
import { ServerProcess } from "./server-process.ts";

const rounds = 10;
const revoked = 100_000;
/** From the claim to the kill. */
const longestMs = 1200;
const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe("A server that is killed while it builds a revocation list, again and again", () => {
  const server = useServer({ LOG_LEVEL: "warn" });
  const authorities = new Authorities(server);
  const crls = new Crls(server);
  const random = randomFrom(seed);

  it("leaves the old list or the new one, and the server after it builds the next", async () => {
    const root = await authorities.root();
    await crls.addRevoked(root.id, revoked);
    await crls.rebuild(root.id);
    let broken = 0;
    for (let round = 1; round <= rounds; round += 1) {
      const before = await crls.row(root.id);
      await crls.makeDue(root.id);
      const killed = new ServerProcess(server.environment());
      while ((await crls.row(root.id)).claim_id === null) await sleep(10);
      await sleep(random() * longestMs);
      await killed.kill();

      const left = await crls.row(root.id);
      const { bytes } = await crls.download(root.id);
      expect(createHash("sha256").update(bytes).digest("hex")).to.equal(left.sha256);
      expect(left.number).to.be.at.least(before.number);
      if (left.claim_id !== null) broken += 1;

      // As if the killed one had been silent for half a minute.
      await crls.makeDue(root.id);
      const next = new ServerProcess(server.environment());
      const built = await crls.builtAfter(left.number, root.id);
      await next.kill();
      expect(built).to.include({ entries: revoked });
      const [{ numbers }] = await server.sql(
        "select count(distinct number)::int as numbers from crl_part where ca_id = $1",
        [root.id],
      );
      expect(numbers).to.be.at.most(3);
    }
    console.log(`seed ${seed}: of ${rounds} builds ${broken} were broken off`);
    expect(broken).to.be.above(0);
  });
});
