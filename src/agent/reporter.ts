import { createHash, randomUUIDv7 } from "node:crypto";
import type { ServiceError } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { KeytabReportService } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { concernsOneCall } from "../client/call-faults.ts";
import type { GrpcClient } from "../client/grpc-client.ts";
import { fullJitter } from "../client/stay-connected.ts";
import { FolderWatch } from "./folder-watch.ts";
import { Observations } from "./observations.ts";
import { ProcessorBudget } from "./processor-budget.ts";
import { reportParts } from "./report-parts.ts";
import { type ScanOptions, scanHost } from "./scan/scan.ts";
import { isNamedLikeKeytab } from "./scan/search.ts";
import { Schedule } from "./schedule.ts";

interface ReporterOptions {
  readonly scan: ScanOptions;
  readonly intervalMs: number;
  readonly logger: Logger;
}

/** Changes of files come in groups. */
const quietMs = 500;
const retry = { baseMs: 5000, mostMs: 600_000 };

/** Scans the host, at intervals and when something changes, and reports what it finds. */
export class Reporter {
  readonly #options: ReporterOptions;
  readonly #schedule = new Schedule();
  readonly #budget = new ProcessorBudget();
  readonly #watch: FolderWatch;
  readonly #observations: Observations;
  readonly #scanned = Promise.withResolvers<void>();
  #roots: ReadonlyMap<string, string> = new Map();
  /** What the server was last told, completely. */
  #told: { readonly digest: string; readonly refreshAt: number } | undefined;
  /** After a report that was refused, no change is worth another one before. */
  #retryAt = 0;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#observations = new Observations(options.logger);
    this.#watch = new FolderWatch(
      (path, event) => this.#changed(path, event),
      (folder, { code }) => this.#observations.cannotWatch(folder, code),
    );
  }

  /** The root below which the last scan found a file; undefined for any other path. Waits for the first scan. */
  async rootOf(filePath: string): Promise<string | undefined> {
    await this.#scanned.promise;
    return this.#roots.get(filePath);
  }

  /** Scans and reports until `signal` is aborted or the connection fails, with which it rejects; then it may run again. */
  async run(reports: GrpcClient<typeof KeytabReportService>, signal: AbortSignal): Promise<never> {
    for (let failures = 0; ; ) {
      await this.#schedule.due(signal);
      try {
        await this.#scanAndReport(reports, signal);
        failures = 0;
      } catch (error) {
        // Over another connection it begins anew.
        if (!concernsOneCall(error)) {
          this.#schedule.hurryTo(0);
          throw error;
        }
        this.#retryAt = performance.now() + retry.baseMs + fullJitter(failures, retry);
        this.#schedule.hurryTo(this.#retryAt - performance.now());
        failures += 1;
        this.#options.logger.error({ reason: (error as ServiceError).details }, "the report was refused");
      }
    }
  }

  close(): void {
    this.#watch.close();
  }

  /** What is written to other files, as to logs, is nothing to hurry for. */
  #changed(path: string, event: "rename" | "change"): void {
    const isWorthAScan = event === "rename" || isNamedLikeKeytab(path) || this.#roots.has(path);
    if (!isWorthAScan) return;
    this.#schedule.hurryTo(Math.max(quietMs, this.#budget.waitMs, this.#retryAt - performance.now()));
  }

  async #scanAndReport(reports: GrpcClient<typeof KeytabReportService>, signal: AbortSignal): Promise<void> {
    // It holds the time of the scan: the server lets a later scan win.
    const scanId = randomUUIDv7();
    const scan = await this.#budget.charge(() => scanHost(this.#options.scan, signal));
    this.#roots = new Map(scan.keytabs.map(({ filePath, root }) => [filePath, root]));
    this.#scanned.resolve();
    this.#observations.scanned(scan);
    const { keytabs, roots, errors } = scan;
    const digest = createHash("sha256")
      .update(JSON.stringify([keytabs, roots, errors]))
      .digest("base64");
    if (this.#told?.digest !== digest || performance.now() >= this.#told.refreshAt) {
      this.#told = undefined;
      await this.#report(reports, reportParts(scanId, scan), keytabs.length);
      this.#told = { digest, refreshAt: performance.now() + this.#options.intervalMs * (1 - Math.random() / 10) };
    }
    this.#schedule.hurryTo(this.#told.refreshAt - performance.now());
    // What changed before a folder was watched would be found an interval later only.
    if (this.#watch.update(scan.folders)) this.#schedule.hurryTo(quietMs);
  }

  async #report(
    reports: GrpcClient<typeof KeytabReportService>,
    parts: ReturnType<typeof reportParts>,
    keytabs: number,
  ): Promise<void> {
    const counts = { discovered: 0, changed: 0, stale: 0 };
    for (const part of parts) {
      const answer = await reports.reportKeytabs(part);
      counts.discovered += answer.discovered;
      counts.changed += answer.changed;
      counts.stale += answer.stale;
    }
    this.#options.logger.info({ keytabs, ...counts }, "reported");
  }
}
