import type { Pace, Seen } from "./load.ts";
import type { Effort } from "./options.ts";
import { cpuMs, type LoadProcess, type ServerProcess } from "./processes.ts";

/** Something that is measured: a server, and the load it gets. */
export interface Subject {
  readonly name: string;
  /** Sends load with so many requests at a time, and resolves to what each load process saw. */
  run(connections: number, pace: Pace): Promise<Seen[]>;
  /** Of the server. */
  readonly pid: number;
  /** Of the processes that send. */
  readonly loadPids: readonly number[];
}

/** What one subject did in one round. */
export interface Round {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** Processor time of the server for one request, in microseconds; not a number where it cannot be told. */
  readonly serverMicros: number;
  /** The same of the processes that send. */
  readonly clientMicros: number;
}

interface HttpLoad {
  readonly requests: readonly string[];
  readonly expectedStatus: number;
  /** Told how many were answered in each round. */
  readonly onAnswered?: (count: number) => void;
}

let runs = 0;

/** A server that gets requests over HTTP/1.1. */
export function httpSubject(name: string, server: ServerProcess, load: LoadProcess, sent: HttpLoad): Subject {
  return {
    name,
    pid: server.pid,
    loadPids: [load.pid],
    async run(connections, pace) {
      runs += 1;
      const { requests, expectedStatus } = sent;
      const unique = `r${runs.toString(36).padStart(4, "0")}`;
      const job = { kind: "http", port: server.port, connections, requests, unique, expectedStatus, ...pace } as const;
      const seen = await load.run(job);
      sent.onAnswered?.(seen.answered);
      return [seen];
    },
  };
}

/** A request without a body, as it goes over the wire. */
export const get = (path: string, token = "none") =>
  `GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`;

/** A request with a JSON body, as it goes over the wire. */
export function post(path: string, body: object, token?: string): string {
  const text = JSON.stringify(body);
  const authorization = token === undefined ? "" : `authorization: Bearer ${token}\r\n`;
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${authorization}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

/**
 * Lets the subjects take turns, in the other direction every other round, so that whatever else the machine does
 * touches all of them alike. Resolves to the rounds of each subject.
 */
export async function takeTurns(subjects: readonly Subject[], connections: number, effort: Effort): Promise<Round[][]> {
  const rounds: Round[][] = subjects.map(() => []);
  for (let n = 0; n < effort.rounds; n += 1) {
    const order = subjects.map((_, index) => index);
    for (const index of n % 2 === 0 ? order : order.reverse()) {
      rounds[index]?.push(await measure(subjects[index] as Subject, connections, effort));
    }
  }
  return rounds;
}

export async function warmUp(subjects: readonly Subject[], connections: number, { warmUpMs }: Effort): Promise<void> {
  for (const subject of subjects) await subject.run(connections, { rampMs: 0, measureMs: warmUpMs });
}

async function measure(subject: Subject, connections: number, { rampMs, measureMs }: Effort): Promise<Round> {
  const cpuOf = () => [cpuMs([subject.pid]), cpuMs(subject.loadPids)] as const;
  const [serverBefore, clientBefore] = cpuOf();
  const seen = await subject.run(connections, { rampMs, measureMs });
  const [serverAfter, clientAfter] = cpuOf();
  const latencies = Float64Array.from(seen.flatMap((each) => [...each.latencies])).sort();
  const answered = seen.reduce((sum, each) => sum + each.answered, 0);
  return {
    perSecond: (latencies.length / measureMs) * 1000,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    serverMicros: ((serverAfter - serverBefore) * 1000) / answered,
    clientMicros: ((clientAfter - clientBefore) * 1000) / answered,
  };
}

export const quantile = (sorted: Float64Array, at: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))] ?? Number.NaN;

/** Of all that the load processes saw together, in milliseconds. */
export const p99Of = (seen: readonly Seen[]) =>
  quantile(Float64Array.from(seen.flatMap((each) => [...each.latencies])).sort(), 0.99);

/** The median over the rounds. */
export async function medianP99(
  reading: Subject,
  connections: number,
  { rampMs, measureMs, rounds }: Effort,
): Promise<number> {
  const p99s: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    p99s.push(p99Of(await reading.run(connections, { rampMs, measureMs })));
  }
  return median(p99s);
}

export const percentiles = (sorted: Float64Array) => ({ p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) });

export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** One round that stands for several: the median of each figure. */
export function medianRound(rounds: readonly Round[]): Round {
  const of = (figure: keyof Round) => median(rounds.map((round) => round[figure]));
  return {
    perSecond: of("perSecond"),
    p50: of("p50"),
    p99: of("p99"),
    serverMicros: of("serverMicros"),
    clientMicros: of("clientMicros"),
  };
}

/** The median, over the rounds, of how one subject did in relation to another in the same round. */
export const medianRatio = (ours: readonly Round[], theirs: readonly Round[], figure: keyof Round): number =>
  median(ours.map((round, n) => round[figure] / (theirs[n]?.[figure] ?? Number.NaN)));
