import { compare } from "./compare.ts";
import type { Effort } from "./options.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { statementSubject } from "./statements.ts";
import type { Subject } from "./subjects.ts";
import type { Line } from "./table.ts";

const processes = 2;

/** How many heartbeats one process of a server takes, beside the UPDATE that each of them is, through pg alone. */
export async function measureHeartbeats(stage: Stage, server: Holdfast, effort: Effort): Promise<Line[]> {
  const accounts = await server.api.gateways(Math.max(...effort.connections), "heartbeats");
  const loads = Array.from({ length: processes }, () => stage.load("heartbeat-load.ts"));
  const share = Math.ceil(accounts.length / processes);
  const run: Subject["run"] = (connections, pace) => {
    const used = loads.slice(0, connections);
    const jobs = used.map((load, n) => {
      const gateways = accounts.slice(n * share, (n + 1) * share);
      const inFlight = Math.ceil(connections / used.length);
      return load.run({ kind: "heartbeats", port: server.port, gateways, inFlight, ...pace });
    });
    return Promise.all(jobs);
  };
  const ours: Subject = { name: "gRPC", pid: server.pid, loadPids: loads.map(({ pid }) => pid), run };
  const floor = statementSubject("UPDATE", stage.load("statement-load.ts"), server, "heartbeat");
  const against = [{ subject: floor, serverTime: true as const }];
  return compare({ name: "heartbeat", ours, against }, effort);
}
