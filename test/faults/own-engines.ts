import { execFileSync } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresEngine, startPostgres, startValkey } from "../../src/engines/engines.ts";
import type { Part } from "../../src/server/server.ts";
import type { Answer, Client } from "../harness/client.ts";
import { TestServer } from "../harness/server.ts";

/** A whole server on a PostgreSQL that nobody else uses, so that a test may stop and pause it. */
export class ServerOnOwnEngines extends TestServer {
  postgres!: PostgresEngine;
  readonly #parts: readonly Part[];
  #home = "";
  #ownUrl = "";

  constructor(settings: Record<string, string> = {}, parts: readonly Part[] = ["api", "ocsp"]) {
    super(settings);
    this.#parts = parts;
  }

  override async start(): Promise<void> {
    this.#home = await mkdtemp(join(tmpdir(), "holdfast-outage-"));
    // PostgreSQL, which root runs as another user, has to pass.
    await chmod(this.#home, 0o711);
    await Promise.all([this.startPostgres(), this.startValkey()]);
    this.#ownUrl = this.postgres.url;
    this.databaseUrl = this.#ownUrl;
    this.server = await this.startReplica({}, this.#parts);
    const { bootstrapped } = this.server;
    this.projectId = bootstrapped?.projectId ?? "";
    this.clientId = bootstrapped?.clientId ?? "";
    this.clientSecret = bootstrapped?.clientSecret ?? "";
    this.admin = await this.login(this.clientId, this.clientSecret);
  }

  /** Starts PostgreSQL again on the same data, at the same URL. */
  async startPostgres(): Promise<void> {
    this.postgres = await startPostgres(join(this.#home, "postgres"), { warn: () => {} });
  }

  /** Starts Valkey again at the same URL; it keeps nothing. */
  async startValkey(): Promise<void> {
    this.valkey = await startValkey(join(this.#home, "valkey"), { warn: () => {} });
  }

  override async stop(): Promise<void> {
    // The database goes with its server, so there is none to drop.
    this.databaseUrl = "";
    await super.stop();
    await this.postgres?.stop();
    await rm(this.#home, { recursive: true, force: true });
  }
}

/** Stops every process of a PostgreSQL where it stands; the answer lets them go on. */
export function pausePostgres({ pid }: PostgresEngine): () => void {
  // The postmaster first: it could make another backend in the meantime.
  process.kill(pid, "SIGSTOP");
  const paused = [pid, ...childrenOf(pid)];
  const signalAll = (signal: NodeJS.Signals) => {
    for (const each of paused) {
      try {
        process.kill(each, signal);
      } catch {
        // A backend that ended by itself meanwhile.
      }
    }
  };
  signalAll("SIGSTOP");
  return () => signalAll("SIGCONT");
}

function childrenOf(parent: number): number[] {
  const lines = execFileSync("ps", ["-eo", "pid=,ppid="], { encoding: "utf8" }).split("\n");
  return lines.flatMap((line) => {
    const [pid, ppid] = line.trim().split(/\s+/).map(Number);
    return ppid === parent && pid !== undefined ? [pid] : [];
  });
}

/** An answer and how long it took. */
export interface Timed {
  readonly what: string;
  readonly status: number;
  readonly code: string | undefined;
  readonly ms: number;
}

/** One request of each kind at once: a read, a list, a write of an existing secret, a new one, a refusal. */
export async function oneOfEach(client: Client, projectId: string, secretId: string): Promise<Timed[]> {
  const key = `k-${Math.random()}`;
  return Promise.all([
    timed("read", () => client.rest("GET", `/api/v1/secrets/${secretId}`)),
    timed("list", () => client.rest("GET", `/api/v1/secrets?project_id=${projectId}`)),
    timed("update", () => client.rest("PUT", `/api/v1/secrets/${secretId}`, { value: "next" })),
    timed("create", () => client.rest("POST", "/api/v1/secrets", { key, value: "v", project_id: projectId })),
  ]);
}

async function timed(what: string, send: () => Promise<Answer>): Promise<Timed> {
  const start = performance.now();
  const { status, body } = await send();
  return { what, status, code: body?.error?.code, ms: Math.round(performance.now() - start) };
}

/** Settles when `condition` holds; rejects after `withinMs`. */
export async function until(condition: () => boolean | Promise<boolean>, withinMs = 10_000): Promise<void> {
  for (const start = performance.now(); performance.now() - start < withinMs; ) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within ${withinMs} ms: ${condition.toString()}`);
}
