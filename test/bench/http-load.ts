import { HttpConnection } from "./http-connection.ts";
import { type HttpJob, Stopwatch, serveJobs, uniquePlace } from "./load.ts";

// A process that sends HTTP requests, as many at a time as there are connections, each as soon as the last is answered.

type Make = () => string | Buffer;

serveJobs(async (job: HttpJob) => {
  const { port, requests, unique, expectedStatus } = job;
  const connections = await Promise.all(Array.from({ length: job.connections }, () => HttpConnection.open(port)));
  const makers = requests.map((request) => maker(request, unique));
  const stopwatch = new Stopwatch(job);
  let turn = 0;
  const next = () => (makers[turn++ % makers.length] as Make)();
  try {
    await Promise.all(connections.map((each) => keepBusy(each, next, expectedStatus, stopwatch)));
  } finally {
    for (const each of connections) each.close();
  }
  return stopwatch.seen;
});

function keepBusy(connection: HttpConnection, next: Make, expectedStatus: number, stopwatch: Stopwatch): Promise<void> {
  return new Promise((resolve, reject) => {
    const send = () => {
      const beganAt = performance.now();
      connection.exchange(
        next(),
        ({ status, beginning }) => {
          if (status !== expectedStatus) reject(new Error(`status ${status}: ${beginning.toString()}`));
          else if (stopwatch.answered(beganAt)) send();
          else resolve();
        },
        reject,
      );
    };
    send();
  });
}

let made = 0;

/** A request that is always the same is made once. */
function maker(request: string, unique: string): Make {
  const [before = "", ...others] = request.split(uniquePlace);
  if (others.length === 0) {
    const bytes = Buffer.from(request);
    return () => bytes;
  }
  return () => {
    made += 1;
    const key = `${unique}${String(made).padStart(uniquePlace.length - unique.length, "0")}`;
    return `${before}${others.map((other) => `${key}${other}`).join("")}`;
  };
}
