import type { Logger } from "pino";
import type { Standing } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Clock } from "../targets/machine-clock.ts";
import { Lease } from "./lease.ts";

/** Work was begun under an authority that has ended: it is not gone on with, and nobody is told of it. */
export class Abandoned extends Error {}

/** A time in which a gateway may work, as the active one under its token or as a standby. What is begun in it ends with it. */
export interface Term {
  /** Undefined for a standby gateway. */
  readonly fencingToken: string | undefined;
  /** Aborted at the end. */
  readonly signal: AbortSignal;
  /**
   * Throws Abandoned when the term has ended. Asks the clock, so that it says so also in a process that was stopped
   * meanwhile, and in which no timer ran: to be called right before everything that has effects.
   */
  check(): void;
}

interface AuthorityOptions {
  readonly now: Clock;
  readonly logger: Logger;
  /** A term began. */
  readonly onTerm: () => void;
}

/** What a gateway may do at this moment: by what the server said last, and as long as the lease holds. */
export class Authority {
  readonly #options: AuthorityOptions;
  readonly #lease: Lease;
  #standing: Standing | undefined;
  #term: { readonly term: Term; readonly end: (reason: Abandoned) => void } | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#lease = new Lease(options.now);
  }

  /** As the server said last. */
  get activationStatus(): string | undefined {
    return this.#standing?.activationStatus;
  }

  /** Between two heartbeats; undefined before the first answer. */
  get heartbeatIntervalSeconds(): number | undefined {
    return this.#standing?.heartbeatIntervalSeconds;
  }

  get leaseLeftMs(): number {
    return this.#lease.leftMs;
  }

  /** Undefined while the gateway may do nothing. */
  get term(): Term | undefined {
    this.#endWithLease();
    return this.#term?.term;
  }

  /** Takes an answer to what was sent at `sentAt`. */
  answered(standing: Standing, sentAt: number): void {
    this.#endWithLease();
    this.#lease.extend(sentAt, standing.leaseSeconds);
    this.told(standing);
  }

  /** Takes what the server says by itself, which says nothing about the lease. */
  told(standing: Standing): void {
    if (!isSame(this.#standing, standing)) {
      const { activationStatus, standDown } = standing;
      this.#options.logger.info({ activation_status: activationStatus, stand_down: standDown }, "standing");
      this.#end("the gateway stands otherwise");
    }
    this.#standing = standing;
    if (this.#term === undefined && this.#lease.holds && mayWork(standing)) this.#begin(standing);
    this.#watchLease();
  }

  #begin({ fencingToken }: Standing): void {
    const controller = new AbortController();
    const term: Term = {
      fencingToken,
      signal: controller.signal,
      check: () => {
        this.#endWithLease();
        controller.signal.throwIfAborted();
      },
    };
    this.#term = { term, end: (reason) => controller.abort(reason) };
    this.#options.onTerm();
  }

  #end(reason: string): void {
    this.#term?.end(new Abandoned(reason));
    this.#term = undefined;
  }

  #endWithLease(): void {
    if (this.#term === undefined || this.#lease.holds) return;
    this.#options.logger.warn("the lease has ended: nothing is done until the server answers");
    this.#end("the lease has ended");
  }

  #watchLease(): void {
    clearTimeout(this.#timer);
    if (this.#term === undefined) return;
    this.#timer = setTimeout(() => {
      this.#endWithLease();
      this.#watchLease();
    }, this.#lease.leftMs).unref();
  }
}

const isSame = (one: Standing | undefined, other: Standing): boolean =>
  one?.activationStatus === other.activationStatus &&
  one.fencingToken === other.fencingToken &&
  one.standDown === other.standDown;

const mayWork = ({ activationStatus, fencingToken, standDown }: Standing): boolean =>
  !standDown && (activationStatus === "active" ? fencingToken !== undefined : activationStatus === "standby");
