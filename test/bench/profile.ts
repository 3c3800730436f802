import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Frame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
}

/** The form that `node --cpu-prof` writes. Times are microseconds of the monotonic clock. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: Frame;
    readonly children?: readonly number[];
  }[];
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const most = 25;

/** What to give node so that it leaves a profile in the folder when it ends. */
export const profiling = (folder: string) => ["--cpu-prof", `--cpu-prof-dir=${folder}`];

/** The monotonic clock in microseconds, as profiles have it. */
export const profileTime = () => Number(process.hrtime.bigint() / 1000n);

/** Where the time between two moments went: by function without what it called, and by package or folder. */
export function explainProfile(folder: string, from: number, until: number): string {
  const file = readdirSync(folder).find((name) => name.endsWith(".cpuprofile"));
  if (file === undefined) throw new Error("the server left no profile");
  const { nodes, samples, timeDeltas, startTime } = JSON.parse(readFileSync(join(folder, file), "utf8")) as CpuProfile;
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const [byFunction, byPlace, withCalls] = [
    new Map<string, number>(),
    new Map<string, number>(),
    new Map<string, number>(),
  ];
  let at = startTime;
  let busy = 0;
  let idle = 0;
  samples.forEach((id, index) => {
    const spent = timeDeltas[index] ?? 0;
    at += spent;
    const frame = frames.get(id);
    if (frame === undefined || at < from || at > until) return;
    if (frame.functionName === "(idle)") idle += spent;
    else {
      busy += spent;
      add(byFunction, nameOf(frame), spent);
      add(byPlace, placeOf(shortOf(frame.url), frame.functionName), spent);
      const callers = new Set<string>();
      for (let each: number | undefined = id; each !== undefined; each = parents.get(each)) {
        const caller = frames.get(each);
        if (caller !== undefined && shortOf(caller.url) !== "") callers.add(nameOf(caller));
      }
      for (const caller of callers) add(withCalls, caller, spent);
    }
  });
  const share = (spent: number) => `${((spent / busy) * 100).toFixed(1).padStart(5)} %`;
  const lines = (found: Map<string, number>) =>
    [...found]
      .sort(([, a], [, b]) => b - a)
      .slice(0, most)
      .map(([name, spent]) => `${share(spent)}  ${name}`)
      .join("\n");
  return [
    `busy ${((busy / (busy + idle)) * 100).toFixed(0)} % of the time; of that, in functions themselves:`,
    lines(byFunction),
    "with what they call, until the next await:",
    lines(withCalls),
    "by place:",
    lines(byPlace),
  ].join("\n\n");
}

function nameOf({ functionName, url, lineNumber }: Frame): string {
  const file = shortOf(url);
  return `${functionName || "(anonymous)"}${file && ` ${file}:${lineNumber + 1}`}`;
}

const add = (to: Map<string, number>, name: string, spent: number) => to.set(name, (to.get(name) ?? 0) + spent);

/** "node_modules/pg/lib/client.js" or "src/server/…", without what is before it. */
const shortOf = (url: string) => url.replace(/^file:\/\//, "").replace(/^.*?\/(?=node_modules\/|src\/|gen\/)/, "");

function placeOf(file: string, functionName: string): string {
  if (file === "") return functionName.startsWith("(") ? functionName : "native";
  const inPackage = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1];
  if (inPackage !== undefined) return inPackage;
  return file.startsWith("node:") ? (file.split("/")[0] ?? file) : file.split("/").slice(0, 3).join("/");
}
