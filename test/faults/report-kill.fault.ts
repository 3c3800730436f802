import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Host } from "../harness/host.ts";
import { randomFrom } from "../harness/random.ts";
import { useServer } from "../harness/server.ts";
import { type FoundRow, ReportHistory } from "./report-history.ts";
import { ScannedHost } from "./scanned-host.ts";
import { ServerProcess } from "./server-process.ts";

const rounds = 15;
const hostsAtOnce = 6;
/** From the first report to the kill. */
const longestMs = 3000;
const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe("Agents that are killed amid scans, and a server that is killed amid their reports", () => {
  const server = useServer({ KEYTAB_ENABLED: "true", RATE_LIMIT_AGENT: "0", LOG_LEVEL: "warn" });

  it("make nothing stale but what a complete scan has not seen, and the next complete scan repairs all", async () => {
    const random = randomFrom(seed);
    const history = new ReportHistory();
    const hosts: ScannedHost[] = [];
    for (let n = 0; n < hostsAtOnce; n += 1) {
      const host = await Host.enroll(server);
      host.close();
      hosts.push(new ScannedHost(host, history, random));
    }
    const contradictions = async () => {
      const select = "select agent_id, file_path, keytab_hash, stale from discovered_keytab";
      return history.contradictions((await server.sql(select)) as FoundRow[]).join("\n");
    };
    const environment = { ...server.environment(), SERVICE_LOG_LEVEL: "info" };
    let running = new ServerProcess(environment);
    try {
      for (let round = 0; round < rounds; round += 1) {
        const url = await running.ready();
        const kill = sleep(random() * longestMs).then(() => running.kill());
        await Promise.all([kill, ...hosts.map((host) => host.scanUntilServerIsKilled(url))]);
        running = new ServerProcess(environment);
        const next = await running.ready();
        const afterKill = await contradictions();
        await Promise.all(hosts.map((host) => host.scanCompletely(next)));

        expect(afterKill).to.equal("");
        expect(await contradictions()).to.equal("");
      }
    } finally {
      await running.kill();
    }

    const endings = hosts.map(({ scans }) => scans);
    const told = Object.entries(endings[0] ?? {}).map(([ending]) => {
      const count = endings.reduce((sum, scans) => sum + scans[ending as keyof typeof scans], 0);
      return `${count} ${ending}`;
    });
    console.log(`      HOLDFAST_TEST_SEED=${seed}: scans: ${told.join(", ")}`);
    for (const count of told) expect(Number.parseInt(count, 10)).to.be.above(0);
  });
});
