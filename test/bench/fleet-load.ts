import { randomUUIDv7 } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { someFiles } from "../server/discovery/files.ts";
import { ConnectedAgent } from "./connected-agent.ts";
import { type FleetJob, type FleetSeen, serveJobs } from "./load.ts";

// A process with many agents, each on a connection of its own with its command stream, at the pace of agents.

const connectingAtOnce = 16;

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
async function connect({ port, agents, keytabs }: FleetJob): Promise<FleetAgent[]> {
  const waiting = [...agents];
  const fleet: FleetAgent[] = [];
  const worker = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const agent = new FleetAgent(await ConnectedAgent.open(port, next), keytabs);
      await agent.watch();
      await agent.heartbeat();
      await agent.report();
      fleet.push(agent);
    }
  };
  await Promise.all(Array.from({ length: connectingAtOnce }, worker));
  return fleet;
}

/** Each agent in its turn, once in `everyMs`; answers how many milliseconds after it was due each call was answered. */
async function atPace(
  fleet: readonly FleetAgent[],
  everyMs: number,
  measureMs: number,
  call: (agent: FleetAgent) => Promise<unknown>,
): Promise<Float64Array> {
  const beganAt = performance.now();
  const latencies: number[] = [];
  const keepPace = async (agent: FleetAgent, firstMs: number) => {
    for (let dueMs = firstMs; dueMs < measureMs; dueMs += everyMs) {
      await sleep(Math.max(0, beganAt + dueMs - performance.now()));
      await call(agent);
      latencies.push(performance.now() - beganAt - dueMs);
    }
  };
  await Promise.all(fleet.map((agent, index) => keepPace(agent, (index / fleet.length) * everyMs)));
  return Float64Array.from(latencies);
}
