import type { ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/ts/health/v1/health_pb.ts";
import { notFound, unavailable } from "../errors.ts";

const watchIntervalMs = 5000;

/** grpc.health.v1 for load balancers and probes: every service of the server serves while the server is healthy. */
export function grpcHealth(
  serviceNames: readonly string[],
  isHealthy: () => Promise<boolean>,
): ServiceImpl<typeof Health> {
  const known = new Set(["", ...serviceNames]);
  const status = async () => ((await isHealthy()) ? Status.SERVING : Status.NOT_SERVING);
  return {
    async check({ service }) {
      if (!known.has(service)) throw notFound("service");
      return { status: await status() };
    },
    async list() {
      const now = await status();
      return { statuses: Object.fromEntries([...known].map((name) => [name, { status: now }])) };
    },
    async *watch({ service }, { signal }) {
      let last: Status | undefined;
      while (!signal.aborted) {
        const now = known.has(service) ? await status() : Status.SERVICE_UNKNOWN;
        if (now !== last) yield { status: now };
        last = now;
        await pause(watchIntervalMs, signal);
      }
      // To a watcher that is still there, so that it asks another replica.
      throw unavailable("the server stops");
    },
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
