import { ConnectedGateway } from "./connected-gateway.ts";
import { Stopwatch, serveJobs, type TaskJob } from "./load.ts";

// A process with one gateway that claims tasks and completes them, so many at a time, each as soon as it can.

let connecting: Promise<ConnectedGateway> | undefined;

serveJobs(async (job: TaskJob) => {
  connecting ??= ConnectedGateway.open(job.port, job.gateway);
  const gateway = await connecting;
  await gateway.heartbeat();
  const stopwatch = new Stopwatch(job);
  const keepBusy = async () => {
    let beganAt: number;
    do {
      beganAt = performance.now();
      const assignment = await gateway.claim();
      if (assignment === undefined) throw new Error("there are no more tasks");
      await gateway.complete(assignment);
    } while (stopwatch.answered(beganAt));
  };
  await Promise.all(Array.from({ length: job.inFlight }, keepBusy));
  return stopwatch.seen;
});
