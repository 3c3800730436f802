import { explainStart } from "../../server/explain-start.ts";
import type { Json } from "../commands/options.ts";
import { exitCodes, Failure } from "../failure.ts";
import { note, printJson, say } from "../output.ts";
import { progressDisplay } from "../progress.ts";

/** Wraps the keys by the current master key; the exit status is 1 while some are not opened by it. */
export async function rewrap({ json }: Json): Promise<void> {
  const { rewrap } = await import("../../server/admin/rewrap.ts");
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const display = progressDisplay();
  const summary = await explained(rewrap({ progress: display.show, signal: stop.signal })).finally(display.end);
  if (json) printJson(summary);
  else
    say(
      `wrapped ${summary.rewrapped} keys anew; the master key opens ${summary.total - summary.unopened} of ${summary.total}`,
    );
  if (summary.unopened === 0) return;
  note(`the master key does not open ${summary.unopened} keys, such as ${summary.examples.join(", ")}`);
  process.exitCode = exitCodes.unexpected;
}

export async function migrate(): Promise<void> {
  const { migrate } = await import("../../server/admin/migrate.ts");
  const applied = await explained(migrate());
  say(applied.length === 0 ? "the schema is up to date" : `applied ${applied.join(", ")}`);
}

/** What the server's own settings or engines refuse is told as the start of a server tells it. */
function explained<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error: unknown) => {
    if (error instanceof Error && error.name === "AbortError")
      throw new Failure("unexpected", "stopped; it may be run again");
    throw new Failure("unexpected", explainStart(error));
  });
}
