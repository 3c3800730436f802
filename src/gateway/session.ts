import { setTimeout as sleep } from "node:timers/promises";
import { type ServiceError, status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import {
  GatewayLinkService,
  type Notice,
  type Standing,
} from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { limitMs } from "../client/stay-connected.ts";
import type { LoggedIn } from "../client/stay-logged-in.ts";
import type { Clock } from "../targets/machine-clock.ts";
import type { Authority } from "./authority.ts";
import type { Link, LinkClient } from "./link.ts";
import type { Metrics } from "./metrics.ts";
import type { Registration } from "./registration.ts";
import type { TaskRunner } from "./task-runner.ts";

interface SessionOptions extends LoggedIn {
  readonly now: Clock;
  readonly registration: Registration;
  readonly authority: Authority;
  readonly link: Link;
  readonly runner: TaskRunner;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

const welcomeTimeoutMs = 10_000;
/** A heartbeat that takes longer than to the next has failed: another replica may still be in time. */
const beatTimeout = { leastMs: 1000, mostMs: 20_000 };

/** Another process has registered as this gateway, so that this one may do nothing any more. */
export class Superseded extends Error {}

/** Serves a server over one connection: heartbeats, and what the server says by itself. Work that runs is not touched. */
export class Session {
  readonly #options: SessionOptions;
  readonly #client: LinkClient;
  readonly #over = new AbortController();
  /** Ends the pause before the next heartbeat. */
  #hurry = new AbortController();

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#client = options.connection.client(GatewayLinkService, options.token);
  }

  /** Runs until the server ends it, or rejects with what the connection failed with. Throws Superseded. */
  async run(): Promise<void> {
    const { connection, link, metrics } = this.#options;
    try {
      await this.#register();
      const beating = this.#beat();
      beating.catch(() => {});
      await Promise.race([this.#watch(), beating]);
    } catch (error) {
      throw this.#explained(error as ServiceError);
    } finally {
      this.#over.abort();
      link.closed();
      metrics.connected.set(0);
      connection.close();
    }
  }

  /** Asks at once how the gateway stands. */
  askNow(): void {
    this.#hurry.abort();
  }

  /** Unless that was done over another connection: then the heartbeat that is due says the same. */
  async #register(): Promise<void> {
    const { now, registration, authority, logger } = this.#options;
    if (registration.ids !== undefined) return;
    const sentAt = now();
    const { gatewayId, standing } = await registration.register(this.#client);
    logger.info({ gateway_id: gatewayId }, "registered");
    authority.answered(standing as Standing, sentAt);
  }

  async #beat(): Promise<never> {
    const { now, registration, authority, metrics } = this.#options;
    for (;;) {
      const sentAt = now();
      const options = { deadline: Date.now() + beatTimeoutMs(authority) };
      try {
        const standing = await this.#client.heartbeat({ ...registration.ids }, undefined, options);
        metrics.heartbeats.inc({ outcome: "ok" });
        authority.answered(standing, sentAt);
        await this.#pause(standing.heartbeatIntervalSeconds * 1000);
      } catch (error) {
        this.#over.signal.throwIfAborted();
        metrics.heartbeats.inc({ outcome: "failed" });
        // Another connection would help as little, and the lease is longer than the limit lasts.
        if (limitMs(error) === 0) throw error;
        await this.#pause(Math.min(limitMs(error), beatTimeout.mostMs));
      }
    }
  }

  async #pause(ms: number): Promise<void> {
    const signal = AbortSignal.any([this.#over.signal, this.#hurry.signal]);
    await sleep(ms, undefined, { signal }).catch(() => {});
    this.#over.signal.throwIfAborted();
    if (this.#hurry.signal.aborted) this.#hurry = new AbortController();
  }

  /** Hears what the server says until the stream ends; the first notice welcomes. */
  #watch(): Promise<void> {
    const { registration, authority, link, runner, metrics, welcomed } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const watching = new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(new Error("the server does not answer")), welcomeTimeoutMs);
      const hear = ({ kind }: Notice) => {
        if (kind.case === "standing") authority.told(kind.value);
        runner.wake();
      };
      this.#client
        .watchTasks({ ...registration.ids })
        .once("data", () => {
          clearTimeout(timer);
          link.opened(this.#client);
          metrics.connected.set(1);
          welcomed();
        })
        .on("data", hear)
        .on("error", reject)
        .on("status", () => resolve());
    });
    return watching.finally(() => clearTimeout(timer));
  }

  #explained(error: ServiceError): Error {
    const { code, details } = error;
    if (code === status.NOT_FOUND) this.#options.registration.forget();
    if (code === status.ABORTED && details.includes("another instance")) return new Superseded(details);
    return error;
  }
}

function beatTimeoutMs({ heartbeatIntervalSeconds }: Authority): number {
  const intervalMs = (heartbeatIntervalSeconds ?? 0) * 1000 || beatTimeout.mostMs;
  return Math.min(Math.max(intervalMs, beatTimeout.leastMs), beatTimeout.mostMs);
}
