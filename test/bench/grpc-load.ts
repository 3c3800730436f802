import { credentials, Metadata } from "@grpc/grpc-js";
import { SecretService } from "../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { createGrpcClient } from "../../src/client/grpc-client.ts";
import { type GrpcJob, Stopwatch, serveJobs } from "./load.ts";

// A process that reads values with @grpc/grpc-js, so many calls at a time, each as soon as the last is answered.

serveJobs(async (job: GrpcJob) => {
  const { port, inFlight, channels, ids } = job;
  const own = { "grpc.use_local_subchannel_pool": 1 };
  const clients = Array.from({ length: channels }, () =>
    createGrpcClient(SecretService, `127.0.0.1:${port}`, credentials.createInsecure(), own),
  );
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${job.token}`);
  const stopwatch = new Stopwatch(job);
  let turn = 0;
  const keepBusy = async (client: (typeof clients)[number]) => {
    let beganAt: number;
    do {
      beganAt = performance.now();
      const { value } = await client.getSecret({ id: ids[turn++ % ids.length] as string }, metadata);
      if (value === "") throw new Error("a secret came without its value");
    } while (stopwatch.answered(beganAt));
  };
  try {
    const loops = Array.from({ length: inFlight }, (_, n) =>
      keepBusy(clients[n % channels] as (typeof clients)[number]),
    );
    await Promise.all(loops);
  } finally {
    for (const client of clients) client.close();
  }
  return stopwatch.seen;
});
