import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceError } from "@grpc/grpc-js";
import type { Logger } from "pino";
import {
  AgentLinkService,
  type Command,
  type UploadKeytabCommand,
} from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { KeytabReportService } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { concernsOneCall } from "../client/call-faults.ts";
import type { GrpcClient } from "../client/grpc-client.ts";
import type { GrpcConnection } from "../client/grpc-connection.ts";
import { running } from "./host.ts";
import type { Reporter } from "./reporter.ts";
import { outcomeOf } from "./uploads.ts";

interface SessionOptions {
  readonly connection: GrpcConnection;
  readonly token: () => Promise<string>;
  readonly reporter: Reporter;
  readonly logger: Logger;
  /** Called when the server listens. */
  readonly welcomed: () => void;
}

const welcomeTimeoutMs = 10_000;

/** Serves a server over one connection: heartbeats, reports, and answers to its commands. */
export class Session {
  readonly #options: SessionOptions;
  readonly #link: GrpcClient<typeof AgentLinkService>;
  readonly #reports: GrpcClient<typeof KeytabReportService>;
  readonly #over = new AbortController();
  readonly #failed = Promise.withResolvers<never>();
  /** Requests that are being answered; the server may repeat them. */
  readonly #answering = new Set<string>();

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#link = options.connection.client(AgentLinkService, options.token);
    this.#reports = options.connection.client(KeytabReportService, options.token);
  }

  /** Runs until the server ends it, or rejects with what the connection failed with; nothing of it runs on. */
  async run(): Promise<void> {
    const { connection, reporter, welcomed } = this.#options;
    const { signal } = this.#over;
    const welcome = Promise.withResolvers<number>();
    const beating = welcome.promise.then((intervalSeconds) => this.#beat(intervalSeconds));
    const reporting = welcome.promise.then(() => reporter.run(this.#reports, signal));
    const watching = this.#watch((intervalSeconds) => {
      welcomed();
      welcome.resolve(intervalSeconds);
    });
    try {
      await Promise.race([watching, beating, reporting, this.#failed.promise]);
    } finally {
      this.#over.abort();
      connection.close();
      welcome.reject(signal.reason);
      await Promise.allSettled([beating, reporting]);
    }
  }

  /** Takes commands until the stream ends. */
  #watch(welcomed: (intervalSeconds: number) => void): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const watching = new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(new Error("the server does not answer")), welcomeTimeoutMs);
      this.#link
        .watchCommands({})
        .on("data", ({ kind }: Command) => {
          if (kind.case === "uploadKeytab") void this.#answer(kind.value);
          if (kind.case !== "welcome") return;
          clearTimeout(timer);
          welcomed(kind.value.heartbeatIntervalSeconds);
        })
        .on("error", reject)
        .on("status", () => resolve());
    });
    return watching.finally(() => clearTimeout(timer));
  }

  async #beat(intervalSeconds: number): Promise<never> {
    for (let seconds = intervalSeconds; ; ) {
      seconds = (await this.#link.heartbeat(running)).intervalSeconds || seconds;
      await sleep(seconds * 1000, undefined, { signal: this.#over.signal });
    }
  }

  async #answer(command: UploadKeytabCommand): Promise<void> {
    const { requestId, filePath } = command;
    if (this.#answering.has(requestId)) return;
    this.#answering.add(requestId);
    const { logger, reporter } = this.#options;
    try {
      const outcome = await outcomeOf(command, reporter);
      await this.#reports.uploadKeytab({ requestId, outcome });
      logger.info({ path: filePath, outcome: outcome.case }, "answered a request for a file");
    } catch (error) {
      // Over another connection the server repeats the request.
      if (!concernsOneCall(error)) this.#failed.reject(error);
      else logger.warn({ path: filePath, reason: (error as ServiceError).details }, "the answer was refused");
    } finally {
      this.#answering.delete(requestId);
    }
  }
}
