import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ProgramFault } from "../client/program.ts";
import type { Metrics } from "./metrics.ts";

/** What there is to say of the gateway at this moment. */
interface Readiness {
  readonly isReady: boolean;
  /** As the server said last; null before. */
  readonly activationStatus: string | null;
}

interface ProbesOptions {
  readonly readiness: () => Readiness;
  readonly metrics: Metrics;
}

const exitStatus = 1;

/** The gateway's own listener: /live, /ready, and /metrics for Prometheus. */
export class Probes {
  readonly #options: ProbesOptions;
  readonly #server: Server;

  constructor(options: ProbesOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      if (request.method !== "GET" && request.method !== "HEAD") send(response, 405, { status: "method_not_allowed" });
      else void this.#answer((request.url ?? "").split("?", 1)[0], response);
    });
  }

  /** Answers where it listens. Throws a ProgramFault when it cannot. */
  async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<AddressInfo> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", ({ code }: NodeJS.ErrnoException) =>
        reject(new ProgramFault(`SERVICE_GATEWAY_PORT: cannot listen at ${host}:${port} (${code})`, exitStatus)),
      );
      this.#server.listen(port, host, resolve);
    });
    return this.#server.address() as AddressInfo;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(path: string | undefined, response: ServerResponse): Promise<void> {
    if (path === "/live") send(response, 200, { status: "alive" });
    else if (path === "/ready") {
      const { isReady, activationStatus } = this.#options.readiness();
      const status = isReady ? "ready" : "not_ready";
      send(response, isReady ? 200 : 503, { status, activation_status: activationStatus });
    } else if (path === "/metrics") {
      const { registry } = this.#options.metrics;
      write(response, 200, registry.contentType, await registry.metrics());
    } else send(response, 404, { status: "not_found" });
  }
}

const send = (response: ServerResponse, status: number, body: object) =>
  write(response, status, "application/json; charset=utf-8", JSON.stringify(body));

function write(response: ServerResponse, status: number, type: string, text: string): void {
  const length = Buffer.byteLength(text);
  response.writeHead(status, { "content-type": type, "content-length": length, "cache-control": "no-store" });
  response.end(response.req.method === "HEAD" ? undefined : text);
}
