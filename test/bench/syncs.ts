import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Effort } from "./options.ts";
import { cpuMs } from "./processes.ts";
import { inTurns } from "./rates.ts";
import { Receiver } from "./receiver.ts";
import type { Replicas, Stage } from "./stage.ts";
import { statementSubject } from "./statements.ts";
import { median } from "./subjects.ts";
import type { Line } from "./table.ts";

const manyHosts = 8;
/** Attempts at one host, over all replicas. */
const mostPerHost = 5;
const pollMs = 10;
/** After which they do not end any more. */
const longestMs = 240_000;

/**
 * How many links that are due at the same moment two replicas bring to a webhook, at one host and at several, beside a
 * request to the same webhook and the statements of that through pg alone, as many at a time.
 */
export async function measureSyncs(stage: Stage, replicas: Replicas, effort: Effort): Promise<Line[]> {
  const [{ api, database }] = replicas;
  const receiver = await Receiver.open(1 + manyHosts);
  stage.endsWith(() => receiver.close());
  const [one, ...many] = receiver.ports as [number, ...number[]];
  const ids = await api.secrets(await api.project("linked"), effort.dueLinks);
  await api.linked(ids, () => one);
  await api.linked(ids, (n) => many[n % manyHosts] as number);
  await untilSynced(database, receiver.ports);
  await database.query("analyze secret, secret_version, data_key, secret_link");
  const load = stage.load("statement-load.ts");
  const lines: Line[] = [];
  for (const ports of [[one], many]) {
    const atOnce = mostPerHost * ports.length;
    const floor = statementSubject("statements, requests", load, replicas[0], "sync", ports);
    const micros: number[] = [];
    const ours = async () => {
      const pids = replicas.map(({ pid }) => pid);
      const before = cpuMs(pids);
      await database.query(makeDue, [hostsOf(ports)]);
      await untilSynced(database, ports);
      micros.push(((cpuMs(pids) - before) * 1000) / ids.length);
      return ids.length;
    };
    const theirs = async () => {
      const [seen] = await floor.run(atOnce, { rampMs: 0, measureMs: effort.measureMs });
      return seen?.answered ?? 0;
    };
    lines.push({
      scenario: `${ids.length} links due at once, hosts: ${ports.length}`,
      connections: atOnce,
      against: floor.name,
      ...(await inTurns(ours, theirs, effort.rounds)),
      serverMicros: median(micros.slice(1)),
    });
  }
  return lines;
}

const hostsOf = (ports: readonly number[]) => ports.map((port) => `127.0.0.1:${port}`);

/** As a change of their secrets does. */
const makeDue = `with queued as (
    update secret_link set status = 'pending', due_at = now() where host = any($1) returning 1)
  select pg_notify('holdfast_sync', '') from (select count(*) from queued) counted`;

const selectUnsynced = "select status from secret_link where host = any($1) and status <> 'synced' limit 1";

async function untilSynced(database: pg.Client, ports: readonly number[]): Promise<void> {
  const beganAt = performance.now();
  for (;;) {
    const { rows } = await database.query<{ status: string }>(selectUnsynced, [hostsOf(ports)]);
    const [unsynced] = rows;
    if (unsynced === undefined) return;
    if (unsynced.status === "failed") throw new Error("a link was not written");
    if (performance.now() - beganAt > longestMs) throw new Error("links that are due are not written");
    await sleep(pollMs);
  }
}
