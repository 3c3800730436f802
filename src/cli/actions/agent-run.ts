import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Failure } from "../failure.ts";
import { settings } from "./agent.ts";

/**
 * Becomes the agent: the same process with another program. That one has neither this command line in memory nor, since
 * what it loads has been compiled here, what compiles TypeScript, and the two are half as large as the agent.
 */
export async function runAgent(): Promise<void> {
  const ownCache = join(settings().stateFolder, "compile-cache");
  const cache = module.getCompileCacheDir();
  // This user may not write where the package is: what is compiled is kept in the agent's own folder, from the start.
  if (cache === undefined && process.env["NODE_COMPILE_CACHE"] !== ownCache) become(process.argv.slice(1), ownCache);
  await Promise.all([import("../../agent/main.ts"), import("../../agent/run.ts")]);
  module.flushCompileCache();
  // Node appends a folder for its version and the user.
  become([fileURLToPath(new URL("../../agent/main.ts", import.meta.url))], cache && dirname(cache));
}

/** Replaces the program of this process by Node with these arguments. */
function become(args: readonly string[], compileCache: string | undefined): never {
  if (process.execve === undefined) throw new Failure("unexpected", `the agent does not run on ${process.platform}`);
  const env = compileCache === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: compileCache };
  return process.execve(process.execPath, [process.execPath, ...process.execArgv, ...args], env);
}
