import { rfc5054Group3072 as group } from "../../src/standards/srp.ts";
import { pad } from "../../src/standards/srp-formulas.ts";
import { compare } from "./compare.ts";
import type { Delays } from "./delays.ts";
import type { Effort } from "./options.ts";
import type { ServerProcess } from "./processes.ts";
import type { Scenario } from "./scenarios.ts";
import type { Stage } from "./stage.ts";
import { get, httpSubject, median, p99Of, post, type Subject } from "./subjects.ts";
import { atLeast, atMost, type Line } from "./table.ts";

const users = 64;
const secrets = 1000;
const connections = 16;
/** Of those who read values meanwhile. */
const readers = 4;

/** Logins with a password, and what they do to other calls of the same server. */
export async function measureLogins(stage: Stage, effort: Effort): Promise<Line[]> {
  const server = await stage.watchedHoldfast("identities");
  const floor = await stage.floor("F6");
  const usernames = await server.api.users(users, pad(group, group.generator));
  const ids = await server.api.secrets(await server.api.project("bench"), secrets);
  const [http, readingHttp, logins] = [stage.http(), stage.load("http-load.ts"), stage.load("srp-load.ts")];
  const beginning = (name: string, of: ServerProcess) => {
    const requests = usernames.map((username) => post("/api/v1/auth/srp/init", { username }));
    return httpSubject(name, of, http, { requests, expectedStatus: 200 });
  };
  const loggingIn = (name: string, { port, pid }: ServerProcess): Subject => ({
    name,
    pid,
    loadPids: [logins.pid],
    run: async (atOnce, pace) => [await logins.run({ kind: "srp", port, connections: atOnce, usernames, ...pace })],
  });
  const against = (name: string, subject: (name: string, of: ServerProcess) => Subject): Scenario => ({
    name,
    ours: subject("REST", server),
    against: [{ subject: subject("F6", floor), target: atLeast(0.5), serverTime: true }],
  });
  const reading = httpSubject("REST", server, readingHttp, {
    requests: ids.map((id) => get(`/api/v1/secrets/${id}`, server.api.token)),
    expectedStatus: 200,
  });
  const few = { ...effort, connections: [1, connections] };
  const lines = [
    ...(await compare(against("begin a login, SRP", beginning), few)),
    ...(await compare(against("whole login, SRP", loggingIn), few)),
    ...(await measureBeside(reading, loggingIn("REST", server), () => server.delays(), effort)),
  ];
  await Promise.all([server.stop(), floor.stop()]);
  return lines;
}

/** Reads alone and beside logins, in turns: how late the event loop was, and how late the values came. */
async function measureBeside(
  reading: Subject,
  logins: Subject,
  delays: () => Promise<Delays>,
  { rampMs, measureMs, rounds }: Effort,
): Promise<Line[]> {
  const pace = { rampMs, measureMs };
  const alone: number[] = [];
  const beside: number[] = [];
  const late: Delays[] = [];
  for (let round = 0; round < rounds; round += 1) {
    alone.push(p99Of(await reading.run(readers, pace)));
    await delays();
    await logins.run(connections, pace);
    late.push(await delays());
    const [seen] = await Promise.all([reading.run(readers, pace), logins.run(connections, pace)]);
    beside.push(p99Of(seen));
  }
  return [
    {
      scenario: "event loop late beside logins, p99",
      connections,
      figure: median(late.map(({ p99 }) => p99)),
      unit: "ms",
      target: atMost(20),
    },
    {
      scenario: "read a value beside logins: p99",
      connections: readers,
      figure: median(beside.map((p99, round) => p99 / (alone[round] ?? Number.NaN))),
      against: `alone (${median(alone).toFixed(2)} ms)`,
      p99: median(beside),
    },
  ];
}
