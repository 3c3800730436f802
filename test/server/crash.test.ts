import { expect } from "chai";
import { crashRounds } from "../faults/crash-rounds.ts";
import { useServer } from "../harness/server.ts";

describe("A server that is killed under load", function () {
  // A process takes a second to start, and several on a busy machine.
  this.timeout(60_000);
  const server = useServer({ LOG_LEVEL: "warn" });

  it("has kept every write it acknowledged, recorded all it answered, and left nothing half made", async () => {
    const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
    const options = {
      rounds: 2,
      seed,
      longestMs: 300,
      environment: { ...server.environment(), SERVICE_LOG_LEVEL: "info" },
      databaseUrl: () => server.databaseUrl,
      projectId: async () => server.projectId,
    };

    const acknowledged = await crashRounds(options, (url) => server.login(server.clientId, server.clientSecret, url));

    console.log(`      HOLDFAST_TEST_SEED=${seed}: ${acknowledged} calls were acknowledged`);
    expect(acknowledged).to.be.above(20);
  });
});
