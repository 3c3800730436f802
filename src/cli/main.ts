import { CommanderError } from "commander";
import { exitCodes } from "./failure.ts";
import { createProgram } from "./program.ts";

try {
  await createProgram().parseAsync();
} catch (error) {
  process.exit(await statusOf(error));
}

/** Tells why a command failed, unless that has been told, and answers the exit status. */
async function statusOf(error: unknown): Promise<number> {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
  const { explain } = await import("./explain.ts");
  const { lines, exitCode } = explain(error);
  process.stderr.write(`holdfast: ${lines.join("\n  ")}\n`);
  return exitCode;
}
