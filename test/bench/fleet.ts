import { setTimeout as sleep } from "node:timers/promises";
import type { Effort } from "./options.ts";
import { cpuMs, memoryMib } from "./processes.ts";
import type { Stage } from "./stage.ts";
import { get, httpSubject, medianP99, percentiles, warmUp } from "./subjects.ts";
import { atMost, type Line } from "./table.ts";

const agents = 1000;
const keytabs = 20;
const heartbeatMs = 30_000;
const reportMs = 60_000;
const lateMs = 1000;
/** The longest that connecting takes. */
const rampMs = 180_000;
const secrets = 1000;
/** Of those who read values meanwhile. */
const readers = 4;

/**
 * Many agents at one server: whether their heartbeats come in time, what they take, and what they do to others who call.
 * In the first half of the time nobody else calls.
 */
export async function measureFleet(stage: Stage, effort: Effort): Promise<Line[]> {
  const { fleetMs } = effort;
  const server = await stage.watchedHoldfast("fleet");
  const ids = await server.api.secrets(await server.api.project("bench"), secrets);
  const requests = ids.map((id) => get(`/api/v1/secrets/${id}`, server.api.token));
  const reading = httpSubject("REST", server, stage.http(), { requests, expectedStatus: 200 });
  await warmUp([reading], readers, effort);
  const alone = await medianP99(reading, readers, effort);
  const load = stage.load("fleet-load.ts");
  const pace = { heartbeatMs, reportMs, keytabs };
  const job = { kind: "fleet", port: server.port, agents: await server.api.agents(agents), ...pace } as const;
  await load.run({ ...job, rampMs, measureMs: 0 });
  const watch = async () => {
    await server.delays();
    const [cpuBefore, beganAt] = [cpuMs([server.pid]), performance.now()];
    await sleep(fleetMs / 2);
    const share = (cpuMs([server.pid]) - cpuBefore) / (performance.now() - beganAt);
    const [late, memory] = [await server.delays(), memoryMib(server.pid)];
    return { share, late, memory, beside: await medianP99(reading, readers, effort) };
  };
  const [seen, { share, late, memory, beside }] = await Promise.all([
    load.run({ ...job, rampMs: 0, measureMs: fleetMs }),
    watch(),
  ]);
  await Promise.all([load.stop(), server.stop()]);
  const heartbeats = seen.latencies.toSorted();
  const reports = seen.reports.toSorted();
  const of = `${agents} agents`;
  return [
    {
      scenario: `${of}: late heartbeats`,
      figure: heartbeats.filter((ms) => ms > lateMs).length,
      unit: `of ${heartbeats.length}`,
      target: atMost(0),
      ...percentiles(heartbeats),
    },
    { scenario: `${of}: lost streams`, figure: seen.lostStreams, unit: `of ${agents}`, target: atMost(0) },
    {
      scenario: `${of}: a report of ${keytabs} known files`,
      figure: percentiles(reports).p99,
      unit: "ms",
      ...percentiles(reports),
    },
    {
      scenario: `${of}: read a value beside them: p99`,
      connections: readers,
      figure: beside / alone,
      against: `alone (${alone.toFixed(2)} ms)`,
      p99: beside,
    },
    { scenario: `${of}: event loop late, p99`, figure: late.p99, unit: "ms" },
    { scenario: `${of}: the server's share of a processor`, figure: 100 * share, unit: "%" },
    { scenario: `${of}: the server's memory`, figure: memory?.now ?? Number.NaN, unit: "MiB" },
  ];
}
