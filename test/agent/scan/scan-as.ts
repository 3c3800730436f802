import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Scan, ScanOptions } from "../../../src/agent/scan/scan.ts";

const module = new URL("../../../src/agent/scan/scan.ts", import.meta.url).href;

/** A scan of these places alone. */
export const only = (...roots: string[]): ScanOptions => ({
  roots,
  defaultPlaces: false,
  otherFileSystems: false,
  environment: {},
});

const program = (options: ScanOptions) => [
  process.execPath,
  "--input-type=module",
  "--eval",
  `import { scanHost } from ${JSON.stringify(module)};
   process.stdout.write(JSON.stringify(await scanHost(${JSON.stringify(options)})));`,
];

/** A scan by a user who may not read everything; undefined when no such user can run the program. */
export function scanAsNobody(options: ScanOptions): Scan | undefined {
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const [node = "", ...args] = program(options);
  const readable = spawnSync("test", ["-x", node, "-a", "-r", fileURLToPath(module)], { ...user, cwd: "/" });
  if (readable.status !== 0) return undefined;
  return resultOf(spawnSync(node, args, { ...user, cwd: "/", encoding: "utf8" }));
}

/** A scan where a file system in memory, with what the command writes there, is mounted at `folder`. */
export function scanWithMount(folder: string, command: string, options: ScanOptions): Scan | undefined {
  const shell = `mount -t tmpfs none '${folder}' && cd '${folder}' && ${command} && exec "$@"`;
  const run = spawnSync("unshare", ["-r", "-m", "sh", "-c", shell, "sh", ...program(options)], { encoding: "utf8" });
  return run.error !== undefined || run.stdout === "" ? undefined : resultOf(run);
}

function resultOf({ stdout, stderr, status }: { stdout: string; stderr: string; status: number | null }): Scan {
  if (status !== 0) throw new Error(`the scan ended with ${status}: ${stderr}`);
  return JSON.parse(stdout) as Scan;
}
