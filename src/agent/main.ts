import { setFlagsFromString } from "node:v8";

/**
 * An agent idles. It needs neither much room for short-lived objects nor V8's optimizing compilers, which would take half
 * as much memory as all else together.
 */
const flags = ["--optimize-for-size", "--no-opt", "--no-maglev"];

// Imported, it is only compiled. The flags come before what is optimized while it is loaded.
if (import.meta.main) {
  for (const flag of flags) setFlagsFromString(flag);
  const { run } = await import("./run.ts");
  process.exit(await run());
}
