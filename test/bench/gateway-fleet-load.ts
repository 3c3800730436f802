import { ConnectedGateway } from "./connected-gateway.ts";
import { type GatewayAccount, type GatewayFleetJob, type StreamsSeen, serveJobs } from "./load.ts";
import { atPace } from "./pace.ts";
import { inParallel } from "./parallel.ts";

// A process with many gateways, each on a connection of its own with its stream of notices, that beat at their pace.

let connecting: Promise<ConnectedGateway[]> | undefined;

serveJobs(async (job: GatewayFleetJob): Promise<StreamsSeen> => {
  connecting ??= connect(job);
  const fleet = await connecting;
  const latencies = await atPace(fleet, job.heartbeatMs, job.measureMs, (gateway) => gateway.heartbeat());
  const lostStreams = fleet.filter(({ isWatching }) => !isWatching).length;
  return { latencies, answered: latencies.length, lostStreams };
});

const connect = ({ port, gateways }: GatewayFleetJob): Promise<ConnectedGateway[]> =>
  inParallel(gateways.length, async (n) => {
    const gateway = await ConnectedGateway.open(port, gateways[n] as GatewayAccount);
    await gateway.watch();
    return gateway;
  });
