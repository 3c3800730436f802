import { setTimeout as sleep } from "node:timers/promises";
import type { Effort } from "./options.ts";
import { cpuMs } from "./processes.ts";
import { Receiver } from "./receiver.ts";
import type { Replicas, Stage } from "./stage.ts";
import { statementSubject } from "./statements.ts";
import { median, percentiles, type Subject } from "./subjects.ts";
import type { Line } from "./table.ts";

const hosts = 8;
/** So many two replicas begin at a time, and so many they apply. */
const begunAtOnce = 8;
const appliedAtOnce = 32;
const pollMs = 200;
/** After which they do not end any more. */
const longestMs = 240_000;

/** When the rotations of a round were begun and had ended, in milliseconds after they were due; sorted. */
interface Times {
  readonly begun: Float64Array;
  readonly ended: Float64Array;
}

interface DueRound extends Times {
  /** Of both replicas. */
  readonly serverMicros: number;
}

/**
 * How many rotations that are due at the same moment two replicas do, beside the statements of that through pg alone, and
 * how long each waits: of those that only make a value, and of those that a webhook is told of.
 */
export async function measureDueRotations(stage: Stage, replicas: Replicas, effort: Effort): Promise<Line[]> {
  const [{ api, database }] = replicas;
  const receiver = await Receiver.open(hosts);
  stage.endsWith(() => receiver.close());
  const { ports } = receiver;
  const projectOf = async (name: string, config: (n: number) => object) => {
    const project = await api.project(name);
    await api.rotated(await api.secrets(project, effort.dueRotations), config);
    return project;
  };
  const made = await projectOf("made", () => ({ provider: "generated_value" }));
  const told = await projectOf("told", (n) => ({
    provider: "webhook",
    provider_settings: { url: `http://127.0.0.1:${ports[n % hosts]}/` },
  }));
  await database.query("analyze secret, secret_version, data_key, rotation_config");
  const load = stage.load("statement-load.ts");
  const alone = statementSubject("statements", load, replicas[0], "rotation");
  const telling = statementSubject("statements, requests", load, replicas[0], "toldRotation", ports);
  return [
    ...(await measureProject(replicas, made, "a value is made", alone, begunAtOnce, effort)),
    ...(await measureProject(replicas, told, "a webhook is told", telling, appliedAtOnce, effort)),
  ];
}

async function measureProject(
  replicas: Replicas,
  project: string,
  what: string,
  floor: Subject,
  atOnce: number,
  effort: Effort,
): Promise<Line[]> {
  const { dueRotations: count, rounds, warmUpMs, measureMs } = effort;
  await rotateAll(replicas, project, count);
  await floor.run(atOnce, { rampMs: 0, measureMs: warmUpMs });
  const ours: DueRound[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    ours.push(await rotateAll(replicas, project, count));
    const seen = await floor.run(atOnce, { rampMs: 0, measureMs });
    theirs.push(seen.reduce((sum, { latencies }) => sum + latencies.length, 0) / (measureMs / 1000));
  }
  const rates = ours.map(({ ended }) => rateOf(ended));
  const scenario = `${count} rotations due at once, ${what}`;
  return [
    {
      scenario,
      connections: atOnce,
      figure: median(rates.map((rate, round) => rate / (theirs[round] ?? Number.NaN))),
      ours: median(rates),
      against: floor.name,
      theirs: median(theirs),
      serverMicros: median(ours.map(({ serverMicros }) => serverMicros)),
    },
    delayLine(
      `${scenario}: due to begun`,
      ours.map(({ begun }) => begun),
    ),
  ];
}

/** Due in a second, which is a moment like any other to those who look for what is due. */
const makeDue = `with due as materialized (select date_trunc('milliseconds', now()) + interval '1 second' as at)
  update secret set next_rotation = due.at, rotation_due_at = due.at from due where project_id = $1 returning due.at`;

const tasksSince = `from secret s join gateway_task t on t.config_id = s.rotation_config_id and t.created_at >= $2
  where s.project_id = $1`;

const countEnded = `select count(*) filter (where t.status = 'succeeded')::int as succeeded,
  count(*) filter (where t.status in ('failed', 'timed_out', 'cancelled'))::int as failed ${tasksSince}`;

async function rotateAll(replicas: Replicas, project: string, count: number): Promise<DueRound> {
  const [{ database }] = replicas;
  const pids = replicas.map(({ pid }) => pid);
  const cpuBefore = cpuMs(pids);
  const { rows } = await database.query<{ at: Date }>(makeDue, [project]);
  const since = [project, rows[0]?.at];
  const beganAt = performance.now();
  for (let succeeded = 0; succeeded < count; ) {
    if (performance.now() - beganAt > longestMs) throw new Error("rotations that are due are not done");
    await sleep(pollMs);
    const [counted] = (await database.query<{ succeeded: number; failed: number }>(countEnded, since)).rows;
    if (counted === undefined || counted.failed > 0) throw new Error("rotations failed");
    ({ succeeded } = counted);
  }
  const serverMicros = ((cpuMs(pids) - cpuBefore) * 1000) / count;
  const millis = (column: string) =>
    `array_agg(extract(epoch from ${column} - $2) * 1000 order by ${column})::float8[]`;
  const { rows: times } = await database.query<Record<keyof Times, number[]>>(
    `select ${millis("t.claimed_at")} as begun, ${millis("t.finished_at")} as ended ${tasksSince}`,
    since,
  );
  const of = (which: keyof Times) => Float64Array.from(times[0]?.[which] ?? []);
  return { begun: of("begun"), ended: of("ended"), serverMicros };
}

/** In a second, from the first to the last. */
const rateOf = (times: Float64Array) => ((times.length - 1) * 1000) / ((times.at(-1) ?? 0) - (times[0] ?? 0));

/** The medians over the rounds. */
function delayLine(scenario: string, rounds: readonly Float64Array[]): Line {
  const all = rounds.map(percentiles);
  const [p50, p99] = [median(all.map((each) => each.p50)), median(all.map((each) => each.p99))];
  return { scenario, figure: p50 / 1000, unit: "s", p50, p99 };
}
