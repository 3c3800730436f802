import { randomUUIDv7 } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type ServiceError, status } from "@grpc/grpc-js";
import { KeytabReportService } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import type { GrpcClient } from "../../src/client/grpc-client.ts";
import { GrpcConnection } from "../../src/client/grpc-connection.ts";
import { type GrpcEndpoint, grpcEndpoint } from "../../src/client/grpc-endpoint.ts";
import type { Found, Host } from "../harness/host.ts";
import { someFile } from "../server/discovery/files.ts";
import type { ReportHistory } from "./report-history.ts";

const paths = Array.from({ length: 80 }, (_, n) => `/etc/${n}.keytab`);
const filesInPart = 10;
/** How probable it is for a file to come, go or change between two scans. */
const unrest = 0.15;
/** How probable it is for an agent to be killed amid a scan. */
const mortality = 0.4;
/** A part whose agent was killed may be stored a little later, but before another agent has started. */
const restartMs = 1000;
/** What a call ends with when the server or the agent goes away. */
const wentAway: readonly status[] = [status.UNAVAILABLE, status.CANCELLED];

type Reports = GrpcClient<typeof KeytabReportService>;
type Ending = "complete" | "agent killed" | "server killed";

/** A host whose files come and go, with an agent that scans them again and again, and that is killed at times. */
export class ScannedHost {
  /** How many scans ended in each way. */
  readonly scans: Record<Ending, number> = { complete: 0, "agent killed": 0, "server killed": 0 };
  readonly #host: Host;
  readonly #history: ReportHistory;
  readonly #random: () => number;
  readonly #files = new Map<string, Found>();

  constructor(host: Host, history: ReportHistory, random: () => number) {
    this.#host = host;
    this.#history = history;
    this.#random = random;
  }

  /** Scans, with one agent after the other, until the server goes away. */
  async scanUntilServerIsKilled(url: string): Promise<void> {
    while ((await this.#runAgent(url, mortality)) !== "server killed");
  }

  async scanCompletely(url: string): Promise<void> {
    const ending = await this.#runAgent(url, 0);
    if (ending !== "complete") throw new Error(`the scan ended by ${ending}`);
  }

  async #runAgent(url: string, mortality: number): Promise<Ending> {
    const connection = new GrpcConnection(grpcEndpoint(url) as GrpcEndpoint, "holdfast-test");
    const token = async () => this.#host.client.token ?? "";
    try {
      const isKilled = this.#random() < mortality;
      const ending = await this.#scan(connection.client(KeytabReportService, token), isKilled, () =>
        connection.close(),
      );
      this.scans[ending] += 1;
      return ending;
    } finally {
      connection.close();
    }
  }

  /** An agent that is killed is so between two parts or amid one. */
  async #scan(reports: Reports, isKilled: boolean, kill: () => void): Promise<Ending> {
    this.#changeFiles();
    const scanId = randomUUIDv7();
    const files = [...this.#files.values()];
    const parts = Math.max(1, Math.ceil(files.length / filesInPart));
    const lastPart = isKilled ? Math.floor(this.#random() * parts) : parts;
    for (let part = 0; part < parts; part += 1) {
      if (part === lastPart && this.#random() < 0.5) return "agent killed";
      const keytabs = files.slice(part * filesInPart, (part + 1) * filesInPart);
      const sending = this.#send(reports, scanId, keytabs, part === parts - 1);
      if (part === lastPart) {
        await sleep(this.#random() * 20);
        kill();
        await sending;
        await sleep(restartMs);
        return "agent killed";
      }
      if (!(await sending)) return "server killed";
    }
    return "complete";
  }

  /** Answers whether there was an answer. */
  async #send(reports: Reports, scanId: string, keytabs: Found[], complete: boolean): Promise<boolean> {
    const answered = await reports.reportKeytabs({ scanId, keytabs, complete, roots: ["/etc"] }).then(
      () => true,
      (error: ServiceError) => {
        if (wentAway.includes(error.code)) return false;
        throw error;
      },
    );
    const files = new Map(keytabs.map(({ filePath = "", keytabHash = "" }) => [filePath, keytabHash]));
    this.#history.add({ agentId: this.#host.id, scanId, files, complete, answered });
    return answered;
  }

  #changeFiles(): void {
    const isFirst = this.#files.size === 0;
    for (const path of paths) {
      if (!isFirst && this.#random() > unrest) continue;
      if (this.#files.has(path) && this.#random() < 0.5) this.#files.delete(path);
      else this.#files.set(path, someFile(path));
    }
  }
}
