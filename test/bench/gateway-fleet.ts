import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Effort } from "./options.ts";
import { cpuMs, memoryMib } from "./processes.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { get, httpSubject, medianP99, percentiles, warmUp } from "./subjects.ts";
import { atMost, type Line } from "./table.ts";

const gateways = 1000;
const heartbeatMs = 30_000;
const lateMs = 1000;
/** The longest that connecting takes. */
const rampMs = 180_000;
const secrets = 1000;
/** Of those who read values meanwhile. */
const readers = 4;
/** Of a processor. */
const budget = 0.25;

/**
 * Many gateways at one server, each with its stream open: what the streams take by themselves and do to others who call,
 * whether heartbeats come in time, and for how many gateways a quarter of a processor would do. That is reckoned: what
 * the server takes beyond what it takes without gateways is taken to grow with their number.
 */
export async function measureGatewayFleet(stage: Stage, effort: Effort): Promise<Line[]> {
  const { fleetMs } = effort;
  const server = await stage.watchedHoldfast("gateway_fleet");
  const ids = await server.api.secrets(await server.api.project("bench"), secrets);
  const requests = ids.map((id) => get(`/api/v1/secrets/${id}`, server.api.token));
  const reading = httpSubject("REST", server, stage.http(), { requests, expectedStatus: 200 });
  const accounts = await server.api.gateways(gateways, "fleet");
  await warmUp([reading], readers, effort);
  const alone = await medianP99(reading, readers, effort);
  const shares = () => sharesDuring(fleetMs / 2, server);
  const without = await shares();
  const load = stage.load("gateway-fleet-load.ts");
  const job = { kind: "gateway-fleet", port: server.port, gateways: accounts, heartbeatMs } as const;
  await load.run({ ...job, rampMs, measureMs: 0 });
  const [idle, memory] = [await shares(), memoryMib(server.pid)];
  const beside = await medianP99(reading, readers, effort);
  await server.delays();
  const [seen, [beating, late]] = await Promise.all([
    load.run({ ...job, rampMs: 0, measureMs: fleetMs }),
    shares().then(async (taken) => [taken, await server.delays()] as const),
  ]);
  await Promise.all([load.stop(), server.stop()]);
  const heartbeats = seen.latencies.toSorted();
  const of = `${gateways} gateways`;
  return [
    {
      scenario: `${of}: late heartbeats`,
      figure: heartbeats.filter((ms) => ms > lateMs).length,
      unit: `of ${heartbeats.length}`,
      target: atMost(0),
      ...percentiles(heartbeats),
    },
    { scenario: `${of}: lost streams`, figure: seen.lostStreams, unit: `of ${gateways}`, target: atMost(0) },
    {
      scenario: `${of}: read a value beside idle streams: p99`,
      connections: readers,
      figure: beside / alone,
      against: `alone (${alone.toFixed(2)} ms)`,
      p99: beside,
    },
    { scenario: `${of}: event loop late, p99`, figure: late.p99, unit: "ms" },
    ...shareLines("without gateways", without),
    ...shareLines(`${of}, idle streams`, idle),
    ...shareLines(`${of}, heartbeats each ${heartbeatMs / 1000} s`, beating),
    { scenario: `${of}: the server's memory`, figure: memory?.now ?? Number.NaN, unit: "MiB" },
    {
      scenario: `gateways for ${100 * budget} % of a processor, reckoned`,
      figure: (gateways * (budget - without.server)) / (beating.server - without.server),
      unit: "gateways",
    },
  ];
}

/** Of one processor. */
interface Shares {
  readonly server: number;
  readonly database: number;
}

/** What a server and PostgreSQL behind it take for a while. */
async function sharesDuring(ms: number, { pid, database }: Holdfast): Promise<Shares> {
  const beganAt = performance.now();
  const [serverBefore, before] = [cpuMs([pid]), await backendTimes(database)];
  await sleep(ms);
  const [server, after, tookMs] = [
    cpuMs([pid]) - serverBefore,
    await backendTimes(database),
    performance.now() - beganAt,
  ];
  // One that has begun meanwhile has taken nothing before; one that has ended is left out.
  const backends = [...after].map(([backend, cpu]) => cpu - (before.get(backend) ?? 0));
  return { server: server / tookMs, database: backends.reduce((sum, each) => sum + each, 0) / tookMs };
}

/** The processor time that each process of PostgreSQL has taken that serves this database. */
async function backendTimes(database: pg.Client): Promise<Map<number, number>> {
  const { rows } = await database.query<{ pid: number }>(
    "select pid from pg_stat_activity where datname = current_database()",
  );
  return new Map(rows.map(({ pid }) => [pid, cpuMs([pid])]));
}

const shareLines = (when: string, { server, database }: Shares): Line[] => [
  { scenario: `${when}: the server's share of a processor`, figure: 100 * server, unit: "%" },
  { scenario: `${when}: PostgreSQL's share of a processor`, figure: 100 * database, unit: "%" },
];
