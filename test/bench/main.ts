import { arch, cpus, platform, release, totalmem } from "node:os";
import { join } from "node:path";
import { measureAuthentication } from "./authenticate.ts";
import { measureCertificates } from "./certificates.ts";
import { compare } from "./compare.ts";
import { measureDeliveries } from "./deliveries.ts";
import { measureDueRotations } from "./due-rotations.ts";
import { measureFailovers } from "./failovers.ts";
import { measureFleet } from "./fleet.ts";
import { createFloorGateways } from "./floor-gateways.ts";
import { createFloorRotations } from "./floor-rotations.ts";
import { measureGatewayFleet } from "./gateway-fleet.ts";
import { measureGeneratedRotations } from "./generated-rotations.ts";
import { measureHeartbeats } from "./heartbeats.ts";
import { measureLogins } from "./identities.ts";
import { measureIdleAgent } from "./idle-agent.ts";
import { measureImports } from "./import-keytabs.ts";
import { measureManyKeytabs } from "./many-keytabs.ts";
import { type Effort, type Options, type Part, readOptions } from "./options.ts";
import { measureParsing } from "./parse-keytabs.ts";
import { memoryMib } from "./processes.ts";
import { explainProfile, profileTime, profiling } from "./profile.ts";
import { measureReports } from "./report-keytabs.ts";
import { measureRevocationLists } from "./revocation-lists.ts";
import { measureRewrapping } from "./rewrap.ts";
import { measureRotationTasks } from "./rotation-tasks.ts";
import { measureScale } from "./scale.ts";
import { Scenarios } from "./scenarios.ts";
import { type Holdfast, Stage } from "./stage.ts";
import { measureStart } from "./start.ts";
import { measureSyncs } from "./syncs.ts";
import { atMost, type Line, tableOf } from "./table.ts";
import { measureVerification } from "./verify-log.ts";

const longestRunMs = 30 * 60_000;
const mostMemoryMib = 250;
const profileConnections = 64;
const profileSeconds = 8;
const scenarioNames = ["read", "grpc", "list", "create", "login"] as const satisfies readonly Part[];

/** The parts that compare more than answers, in their order. */
const moreParts: Partial<Record<Part, (stage: Stage, main: Holdfast, effort: Effort) => Promise<Line[]>>> = {
  identities: async (stage, _, effort) => [
    ...(await measureLogins(stage, effort)),
    ...(await measureAuthentication(stage, effort)),
  ],
  verify: (stage, _, effort) => measureVerification(stage, effort),
  rewrap: (stage, _, effort) => measureRewrapping(stage, effort),
  scale: (stage, _, effort) => measureScale(stage, effort, tell),
  keytabs: async (stage, main, effort) => [
    ...measureParsing(effort),
    ...(await measureImports(stage, main, effort)),
    ...(await measureManyKeytabs(stage, effort)),
  ],
  agents: async (stage, main, effort) => [
    ...(await measureReports(main, effort)),
    ...(await measureFleet(stage, effort)),
    ...(await measureIdleAgent(main)),
  ],
  gateways: async (stage, main, effort) => {
    await createFloorGateways(main.database);
    return [
      ...(await measureHeartbeats(stage, main, effort)),
      ...(await measureFailovers(main, effort)),
      ...(await measureRotationTasks(stage, main, effort)),
      ...(await measureGatewayFleet(stage, effort)),
    ];
  },
  rotations: async (stage, _, effort) => {
    const replicas = await stage.replicas("rotations");
    await createFloorRotations(replicas[0].database);
    const lines = [
      ...(await measureGeneratedRotations(stage, replicas[0], effort)),
      ...(await measureDueRotations(stage, replicas, effort)),
    ];
    for (const replica of replicas) await replica.stop();
    return lines;
  },
  links: async (stage, _, effort) => {
    const replicas = await stage.replicas("links");
    await createFloorRotations(replicas[0].database);
    const lines = [
      ...(await measureSyncs(stage, replicas, effort)),
      ...(await measureDeliveries(stage, replicas, effort)),
    ];
    for (const replica of replicas) await replica.stop();
    return lines;
  },
  certificates: measureCertificates,
  crl: (stage, _, effort) => measureRevocationLists(stage, effort),
};

const beganAt = performance.now();
const options = readOptions(process.argv.slice(2));
const stage = new Stage();
let interrupted = false;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => void give(signal));
setTimeout(() => void give("the time is up"), longestRunMs).unref();

try {
  await (options.profile ? profile(options) : run(options));
} catch (error) {
  if (!interrupted) console.error(error);
  process.exitCode = 1;
} finally {
  if (!interrupted) {
    await stage.close();
    process.exit();
  }
}

async function run({ parts, effort }: Options): Promise<void> {
  const lines: Line[] = [];
  const notes: string[] = [];
  if (parts.has("start")) {
    tell("start");
    lines.push(...(await measureStart(stage, effort)));
  }
  const main = await stage.main();
  const { rows } = await main.database.query<{ server_version: string }>("show server_version");
  notes.push(machine(rows[0]?.server_version ?? ""));
  const scenarios = await Scenarios.open(stage, main);
  let recorded = 0;
  for (const name of scenarioNames) {
    if (!parts.has(name)) continue;
    tell(name);
    lines.push(...(await compare(await scenarios[name](), effort)));
  }
  if (parts.has("read") || parts.has("grpc")) {
    recorded = await scenarios.recordedReads();
    notes.push(`${scenarios.reads} values read and answered, ${recorded} reads in the audit log`);
  }
  for (const [name, measure] of Object.entries(moreParts)) {
    if (!parts.has(name as Part)) continue;
    tell(name);
    lines.push(...(await measure(stage, main, effort)));
  }
  const memory = parts.has("memory") ? memoryMib(main.pid) : undefined;
  if (memory !== undefined) {
    lines.push({ scenario: "memory after the run", figure: memory.now, unit: "MiB", target: atMost(mostMemoryMib) });
    lines.push({ scenario: "memory at its peak", figure: memory.peak, unit: "MiB" });
  }
  console.log(`\n${tableOf(lines)}\n\n${notes.join("\n")}`);
  if (recorded !== scenarios.reads) throw new Error("values were read that the audit log does not know");
}

/** Loads one server with the parts in turn; each is shown by its share of the server's profile. */
async function profile({ parts, effort }: Options): Promise<void> {
  const folder = join(stage.folder, "profile");
  const main = await stage.main(profiling(folder));
  const scenarios = await Scenarios.open(stage, main);
  const windows: { name: string; from: number; until: number }[] = [];
  for (const name of scenarioNames) {
    if (!parts.has(name)) continue;
    tell(name);
    const { ours } = await scenarios[name]();
    await ours.run(profileConnections, { rampMs: 0, measureMs: 2 * effort.warmUpMs });
    const from = profileTime();
    await ours.run(profileConnections, { rampMs: 0, measureMs: profileSeconds * 1000 });
    windows.push({ name, from, until: profileTime() });
  }
  await main.stop();
  for (const { name, from, until } of windows) console.log(`\n${name}: ${explainProfile(folder, from, until)}`);
}

function machine(postgres: string): string {
  const gib = Math.round(totalmem() / 2 ** 30);
  const cores = `${cpus().length} x ${cpus()[0]?.model.trim() ?? "unknown"}`;
  return `Node ${process.version}, PostgreSQL ${postgres}, ${platform()} ${release()} ${arch()}, ${cores}, ${gib} GiB`;
}

function tell(text: string): void {
  const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
  console.error(`${seconds.padStart(4)} s  ${text}`);
}

/** Ends before the end, and leaves nothing behind. */
async function give(reason: string): Promise<void> {
  interrupted = true;
  console.error(`\nended: ${reason}`);
  await stage.close();
  process.exit(130);
}
