import { type ChildProcess, spawn } from "node:child_process";
import { relative } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface Told {
  readonly databaseUrl?: string;
  readonly redisUrl?: string;
  readonly refused?: string;
  readonly drained?: boolean;
}

/** Another process that starts engines; see engine-holder.ts. */
export interface Holder {
  readonly pid: number;
  /** The next thing that it says; empty when it ended instead. */
  next(): Promise<Told>;
  /** What it has written to its standard error. */
  complaints(): string;
  kill(): Promise<void>;
}

const program = fileURLToPath(new URL("./engine-holder.ts", import.meta.url));
export const NOBODY = { uid: 65534, gid: 65534 };

export function holdEngines(folder: string, identity?: { uid: number; gid: number }): Holder {
  return follow(spawn(process.execPath, [program, folder], { ...identity, ...separate }));
}

/** The same where `folder` is a new file system of `size`, which nobody else sees. */
export function holdEnginesOnSmallDisk(folder: string, size: string): Holder {
  const script = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && exec "$3" "$4" "$2/data"';
  return inNamespace(script, [size, folder, process.execPath, program]);
}

/** The same with the program and its packages seen below `home`. */
export function holdEnginesInstalledIn(home: string, folder: string): Holder {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const script = 'mount --bind "$1" "$2" && exec "$3" "$2/$4" "$5"';
  return inNamespace(script, [root, home, process.execPath, relative(root, program), folder]);
}

function inNamespace(script: string, args: string[]): Holder {
  return follow(spawn("unshare", ["--mount", "sh", "-c", script, "sh", ...args], separate));
}

// A group of its own, which a test can interrupt as a terminal does.
const separate = { detached: true, cwd: "/", stdio: ["ignore", "pipe", "pipe"] as ["ignore", "pipe", "pipe"] };

function follow(child: ChildProcess): Holder {
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const lines: AsyncIterator<string> = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  let complaints = "";
  child.stderr?.on("data", (chunk) => (complaints += chunk));
  return {
    pid: child.pid ?? 0,
    next: async () => {
      const { value, done } = await lines.next();
      return done ? {} : (JSON.parse(value) as Told);
    },
    complaints: () => complaints,
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
