import { setTimeout as sleep } from "node:timers/promises";
import { type ServiceError, status } from "@grpc/grpc-js";
import { GrpcConnection } from "./grpc-connection.ts";
import type { GrpcEndpoint } from "./grpc-endpoint.ts";

/** The server does not believe who the program says it is, which time does not heal. */
export class CredentialRefused extends Error {}

interface StayConnectedOptions {
  /** Replicas of one server. */
  readonly endpoints: readonly GrpcEndpoint[];
  readonly userAgent: string;
  /** What is done with a connection until it fails; `welcomed` is called when the server serves it. */
  readonly work: (connection: GrpcConnection, welcomed: () => void) => Promise<void>;
  /** Hears why a connection ended, or was not made, and for how long there will be none. */
  readonly onFault: (fault: unknown, endpoint: GrpcEndpoint, waitMs: number) => void;
  readonly signal: AbortSignal;
}

/** A connection that held this long was no failure. */
const settledMs = 10_000;
const quick = { baseMs: 1000, mostMs: 30_000 };
/** For what was refused, until somebody does something about it. */
const slow = { baseMs: 60_000, mostMs: 600_000 };
/** For who is not permitted to be here, as when disabled. */
const stoppedMs = 3_600_000;

/** Does `work` over connections, one after the other, to one endpoint after the other, until `signal` is aborted. */
export async function stayConnected(options: StayConnectedOptions): Promise<void> {
  const { endpoints, userAgent, work, onFault, signal } = options;
  let next = Math.floor(Math.random() * endpoints.length);
  for (let failures = 0; !signal.aborted; next += 1) {
    const endpoint = endpoints[next % endpoints.length] as GrpcEndpoint;
    const connection = new GrpcConnection(endpoint, userAgent);
    const close = () => connection.close();
    signal.addEventListener("abort", close, { once: true });
    let welcomedAt = Number.POSITIVE_INFINITY;
    let fault: unknown;
    try {
      await work(connection, () => {
        welcomedAt = performance.now();
      });
    } catch (error) {
      fault = error;
    } finally {
      signal.removeEventListener("abort", close);
      close();
    }
    if (signal.aborted) return;
    failures = performance.now() - welcomedAt > settledMs ? 0 : failures + 1;
    const waitMs = waitAfter(fault, Math.floor(Math.max(0, failures - 1) / endpoints.length));
    onFault(fault, endpoint, waitMs);
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** How long to wait; `rounds` is how often all endpoints have failed before. */
function waitAfter(fault: unknown, rounds: number): number {
  if (fault instanceof CredentialRefused || isRefusal(fault)) return slow.baseMs / 2 + fullJitter(rounds, slow);
  const { code } = (fault ?? {}) as Partial<ServiceError>;
  if (code === status.PERMISSION_DENIED) return stoppedMs * (0.75 + Math.random() / 2);
  return limitMs(fault) + fullJitter(rounds, quick);
}

/** Whether the server refuses what the program is, as it stands. */
export function isRefusal(fault: unknown): boolean {
  const { code } = (fault ?? {}) as Partial<ServiceError>;
  return code === status.FAILED_PRECONDITION || code === status.ALREADY_EXISTS;
}

/** Any time up to a bound that doubles, so that many who failed at once do not come back at once. */
export function fullJitter(attempt: number, { baseMs, mostMs }: { baseMs: number; mostMs: number }): number {
  return Math.random() * Math.min(mostMs, baseMs * 2 ** attempt);
}

/** How long the server asks to wait because of its limit of requests; 0 for any other fault. */
export function limitMs(fault: unknown): number {
  const { code, metadata } = (fault ?? {}) as Partial<ServiceError>;
  const seconds = code === status.RESOURCE_EXHAUSTED ? Number(metadata?.get("retry-after")[0]) : 0;
  return seconds > 0 ? Math.min(seconds * 1000, stoppedMs) : 0;
}
