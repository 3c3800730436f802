import { randomUUIDv7 } from "node:crypto";
import type { Command } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { someFiles } from "../server/discovery/files.ts";
import { ConnectedAgent } from "./connected-agent.ts";
import { type Credentials, type FleetJob, type FleetSeen, serveJobs } from "./load.ts";
import { atPace } from "./pace.ts";
import { inParallel } from "./parallel.ts";

// A process with many agents, each on a connection of its own with its command stream, at the pace of agents.

class FleetAgent {
  readonly #agent: ConnectedAgent;
  readonly #files: ReturnType<typeof someFiles>;
  isWatching = false;

  constructor(agent: ConnectedAgent, keytabs: number) {
    this.#agent = agent;
    this.#files = someFiles(keytabs);
  }

  /** Opens the command stream; resolves when the server listens. */
  watch(): Promise<void> {
    return new Promise((resolve, reject) => {
      const lost = (error?: Error) => {
        this.isWatching = false;
        reject(error ?? new Error("the command stream ended"));
      };
      const stream = this.#agent.link.watchCommands({});
      stream.on("error", lost).on("end", lost);
      stream.on("data", ({ kind }: Command) => {
        if (kind.case !== "welcome") return;
        this.isWatching = true;
        resolve();
      });
    });
  }

  heartbeat() {
    return this.#agent.link.heartbeat({ version: "1.0.0", os: "Linux" });
  }

  /** The same files each time, as a complete scan. */
  report() {
    const scan = { scanId: randomUUIDv7(), complete: true, roots: ["/etc"] };
    return this.#agent.reports.reportKeytabs({ ...scan, keytabs: this.#files });
  }
}

let connecting: Promise<FleetAgent[]> | undefined;

serveJobs(async (job: FleetJob): Promise<FleetSeen> => {
  connecting ??= connect(job);
  const fleet = await connecting;
  const { heartbeatMs, reportMs, measureMs } = job;
  const [heartbeats, reports] = await Promise.all([
    atPace(fleet, heartbeatMs, measureMs, (agent) => agent.heartbeat()),
    atPace(fleet.toReversed(), reportMs, measureMs, (agent) => agent.report()),
  ]);
  return {
    latencies: heartbeats,
    reports,
    answered: heartbeats.length + reports.length,
    lostStreams: fleet.filter(({ isWatching }) => !isWatching).length,
  };
});

/** Each logs in, opens its stream, beats once and reports what is new then. */
const connect = ({ port, agents, keytabs }: FleetJob): Promise<FleetAgent[]> =>
  inParallel(agents.length, async (n) => {
    const agent = new FleetAgent(await ConnectedAgent.open(port, agents[n] as Credentials), keytabs);
    await agent.watch();
    await agent.heartbeat();
    await agent.report();
    return agent;
  });
