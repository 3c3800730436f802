import { type ChildProcess, fork, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Delays } from "./delays.ts";
import type { FleetJob, FleetSeen, GatewayFleetJob, Job, Reply, Seen, StreamsSeen } from "./load.ts";

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const holdfast = here("../../src/holdfast.js");
const healthyWithinMs = 60_000;
const endsWithinMs = 15_000;
/** On top of the time that a job is meant to take. */
const jobGraceMs = 20_000;

/** A server that listens on a port of 127.0.0.1. */
export interface ServerProcess {
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/** A process that sends requests. */
export interface LoadProcess {
  readonly pid: number;
  run(job: FleetJob): Promise<FleetSeen>;
  run(job: GatewayFleetJob): Promise<StreamsSeen>;
  run(job: Job): Promise<Seen>;
  stop(): Promise<void>;
}

/** The programs of load processes. */
export type LoadFile =
  | "http-load.ts"
  | "grpc-load.ts"
  | "srp-load.ts"
  | "fleet-load.ts"
  | "heartbeat-load.ts"
  | "task-load.ts"
  | "gateway-fleet-load.ts"
  | "statement-load.ts";

export function startLoad(file: LoadFile): LoadProcess {
  const child = fork(here(file), { serialization: "advanced" });
  return {
    pid: child.pid ?? 0,
    async run(job: Job) {
      child.send(job);
      const reply = (await messageFrom(child, file, job.rampMs + job.measureMs + jobGraceMs)) as Reply;
      if ("broken" in reply) throw new Error(reply.broken);
      return reply.seen as FleetSeen;
    },
    stop: () => end(child),
  };
}

/** Starts a floor, which tells its port once it listens. */
export async function startFloor(kind: string, databaseUrl: string): Promise<ServerProcess> {
  const child = fork(here("floor.ts"), [kind, databaseUrl]);
  const port = (await messageFrom(child, kind, healthyWithinMs)) as number;
  return { port, pid: child.pid ?? 0, stop: () => end(child) };
}

/** The next message of a child; rejects when it ends before, or takes too long. */
function messageFrom(child: ChildProcess, name: string, withinMs: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      clearTimeout(timer);
      child.off("message", onMessage).off("exit", onExit);
    };
    const onMessage = (message: unknown) => {
      settle();
      resolve(message);
    };
    const onExit = () => {
      settle();
      reject(new Error(`${name} ended by itself`));
    };
    const timer = setTimeout(() => {
      settle();
      reject(new Error(`${name} did not answer in time`));
    }, withinMs);
    child.on("message", onMessage).on("exit", onExit);
  });
}

/** A server that became healthy. */
export interface HoldfastProcess extends ServerProcess {
  readonly healthyAfterMs: number;
}

/** A server that tells how late its event loop is. */
export interface WatchedProcess extends HoldfastProcess {
  /** Since it was last asked. */
  delays(): Promise<Delays>;
}

/** Starts `holdfast serve` with these settings, named without SERVICE_, and waits until it says that it is healthy. */
export async function startHoldfast(
  settings: Record<string, string>,
  nodeOptions: readonly string[] = [],
): Promise<HoldfastProcess> {
  const { server } = await launch(settings, nodeOptions, {}, ["ignore", "pipe", "pipe"]);
  return server;
}

/** The same, with something loaded into it that watches its event loop. */
export async function startWatchedHoldfast(settings: Record<string, string>): Promise<WatchedProcess> {
  const environment = { NODE_OPTIONS: `--import=${new URL("delays.ts", import.meta.url).href}` };
  const { server, child } = await launch(settings, [], environment, ["ignore", "pipe", "pipe", "ipc"]);
  const delays = async () => {
    child.send("delays");
    return (await messageFrom(child, "the server", jobGraceMs)) as Delays;
  };
  return { ...server, delays };
}

async function launch(
  settings: Record<string, string>,
  nodeOptions: readonly string[],
  environment: NodeJS.ProcessEnv,
  stdio: StdioOptions,
): Promise<{ server: HoldfastProcess; child: ChildProcess }> {
  const port = await freePort();
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH, ...environment };
  const all = { PORT: String(port), OCSP_PORT: "0", LOG_LEVEL: "warn", ...settings };
  for (const [name, value] of Object.entries(all)) env[`SERVICE_${name}`] = value;
  const beganAt = performance.now();
  // As `npm start` does it, with the executable's own options; with more only for a profile.
  const [program, ...args] = nodeOptions.length === 0 ? [holdfast] : [process.execPath, ...nodeOptions, holdfast];
  const child = spawn(program, [...args, "serve"], { env, stdio });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (text: Buffer) => {
      said = `${said}${text.toString()}`.slice(-4000);
    });
  }
  while (!(await isHealthy(port))) {
    if (child.exitCode !== null) throw new Error(`the server ended before it was healthy:\n${said}`);
    if (performance.now() - beganAt > healthyWithinMs) throw new Error(`the server does not get healthy:\n${said}`);
    await sleep(5);
  }
  const healthyAfterMs = performance.now() - beganAt;
  return { server: { port, pid: child.pid ?? 0, healthyAfterMs, stop: () => end(child) }, child };
}

async function isHealthy(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/health`);
    return ((await answer.json()) as { status: string }).status === "healthy";
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const kill = setTimeout(() => child.kill("SIGKILL"), endsWithinMs);
  await ended;
  clearTimeout(kill);
}

const tickMs = 10;

/** Milliseconds of processor time that processes have used; not a number where there is no /proc. */
export function cpuMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
}

function cpuMsOf(pid: number): number {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return Number.NaN;
  const fields = readFileSync(file, "latin1").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

/** Resident memory of a process in MiB, now and at its peak; undefined where there is no /proc. */
export function memoryMib(pid: number): { readonly now: number; readonly peak: number } | undefined {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  const status = readFileSync(file, "latin1");
  const mib = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024;
  return { now: mib("VmRSS"), peak: mib("VmHWM") };
}
