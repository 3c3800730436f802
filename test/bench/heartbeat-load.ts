import { ConnectedGateway } from "./connected-gateway.ts";
import { type GatewayAccount, type HeartbeatJob, Stopwatch, serveJobs } from "./load.ts";
import { inParallel } from "./parallel.ts";

// A process with gateways, each on a connection of its own, that beat as fast as they are answered.

let connecting: Promise<ConnectedGateway[]> | undefined;

serveJobs(async (job: HeartbeatJob) => {
  const { port, gateways, inFlight } = job;
  connecting ??= inParallel(gateways.length, (n) => ConnectedGateway.open(port, gateways[n] as GatewayAccount));
  const connected = await connecting;
  const stopwatch = new Stopwatch(job);
  const keepBusy = async (gateway: ConnectedGateway) => {
    let beganAt: number;
    do {
      beganAt = performance.now();
      await gateway.heartbeat();
    } while (stopwatch.answered(beganAt));
  };
  await Promise.all(connected.slice(0, inFlight).map(keepBusy));
  return stopwatch.seen;
});
