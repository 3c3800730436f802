import type { Redis } from "ioredis";
import type { Database } from "../db/database.ts";

export type Status = "healthy" | "unhealthy";

/** What a check of one component found. */
export interface Finding {
  readonly status: Status;
  readonly latencyMs: number;
}

export interface Findings {
  readonly database: Finding;
  readonly redis: Finding;
  readonly ocsp: Finding;
}

const checkTimeoutMs = 2000;
const cacheMs = 1000;

/** Checks what the service needs, in parallel, 2 s at most, at most once a second whoever asks (G-17.1). */
export class Components {
  readonly #checks: Readonly<Record<keyof Findings, () => Promise<unknown>>>;
  #last: { readonly at: number; readonly findings: Promise<Findings> } | undefined;

  constructor(db: Database, redis: Redis, ocspUrl: () => string) {
    this.#checks = {
      database: () => db.query("select $1::int", [1]),
      redis: () => redis.ping(),
      ocsp: async () => {
        const response = await fetch(`${ocspUrl()}/ready`, {
          signal: AbortSignal.timeout(checkTimeoutMs),
          redirect: "error",
        });
        await response.arrayBuffer();
        if (!response.ok) throw new Error("not ready");
      },
    };
  }

  check(): Promise<Findings> {
    const now = performance.now();
    if (this.#last === undefined || now - this.#last.at > cacheMs) this.#last = { at: now, findings: this.#checkAll() };
    return this.#last.findings;
  }

  async #checkAll(): Promise<Findings> {
    const { database, redis, ocsp } = this.#checks;
    const [first, second, third] = await Promise.all([measure(database), measure(redis), measure(ocsp)]);
    return { database: first, redis: second, ocsp: third };
  }
}

async function measure(check: () => Promise<unknown>): Promise<Finding> {
  const start = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("timed out")), checkTimeoutMs);
  });
  try {
    await Promise.race([check(), timeout]);
    return { status: "healthy", latencyMs: Math.round(performance.now() - start) };
  } catch {
    return { status: "unhealthy", latencyMs: Math.round(performance.now() - start) };
  } finally {
    clearTimeout(timer);
  }
}

/** Healthy only when every component is. */
export const overall = (findings: Findings): Status =>
  Object.values(findings).every(({ status }: Finding) => status === "healthy") ? "healthy" : "unhealthy";
