import { explainStart } from "../../server/explain-start.ts";
import type { Json } from "../commands/options.ts";
import { exitCodes, Failure, usage } from "../failure.ts";
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

export interface VerifyOptions extends Json {
  readonly checkpoint?: string;
}

/** Verifies an exported audit log; the exit status is 1 when it is not as it was written. */
export async function verifyAudit(file: string, { checkpoint, json }: VerifyOptions): Promise<void> {
  const { UnreadableExport, verifyAudit } = await import("../../server/admin/verify-audit.ts");
  const report = await explained(
    verifyAudit(file, checkpoint).catch((error: unknown) => {
      throw error instanceof UnreadableExport ? usage(error.message) : error;
    }),
  );
  const { valid, checked, broken, head, chains } = report;
  if (json) {
    const place = { broken_at: broken?.sequence ?? null, broken_chain: broken?.chain ?? null };
    printJson({ valid, checked, ...place, broken_reason: broken?.reason ?? null, head, chains });
  } else say(`${checked} events in ${chains.length} chains, head ${head}`);
  if (broken === undefined) return;
  note(`the log is not as it was written: event ${broken.sequence} of chain ${broken.chain} is ${broken.reason}`);
  process.exitCode = exitCodes.unexpected;
}

export async function migrate(): Promise<void> {
  const { migrate } = await import("../../server/admin/migrate.ts");
  const applied = await explained(migrate());
  say(applied.length === 0 ? "the schema is up to date" : `applied ${applied.join(", ")}`);
}

/** What the server's own settings or engines refuse is told as the start of a server tells it. */
function explained<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error: NodeJS.ErrnoException) => {
    if (error.name === "AbortError") throw new Failure("unexpected", "stopped; it may be run again");
    if (error.syscall === "open") throw usage(`cannot read ${error.path} (${error.code})`);
    throw error instanceof Failure ? error : new Failure("unexpected", explainStart(error));
  });
}
