import { setTimeout as sleep } from "node:timers/promises";
import { type ServiceError, status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { Assignment } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { limitMs } from "../client/stay-connected.ts";
import type { Permit } from "../targets/drivers/driver.ts";
import type { Clock } from "../targets/machine-clock.ts";
import { Abandoned, type Authority, type Term } from "./authority.ts";
import type { FindDriver } from "./drivers/drivers.ts";
import type { Link, LinkClient } from "./link.ts";
import type { Metrics } from "./metrics.ts";
import { type Outcome, perform } from "./perform.ts";
import type { Registration } from "./registration.ts";
import { ReportRefused, Reports, tokenOf } from "./reports.ts";
import { permitFor } from "./task-permit.ts";

interface RunnerOptions {
  readonly concurrency: number;
  readonly now: Clock;
  readonly authority: Authority;
  readonly registration: Registration;
  readonly link: Link;
  readonly findDriver: FindDriver;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The server has refused what it would take from the gateway as it believes to stand. */
  readonly onRefusal: () => void;
}

/** Claims tasks when there are some, does several at a time, and reports what became of them. */
export class TaskRunner {
  readonly #options: RunnerOptions;
  readonly #reports: Reports;
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  /** There may be tasks; an empty answer says that there are none. */
  #mayBeMore = false;
  #isClaiming = false;
  /** The last claim. */
  #claim: Promise<void> | undefined;
  #isResting = false;
  #isDraining = false;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#reports = new Reports(options.link, options.registration);
  }

  /** There are tasks, or the gateway may claim them now. */
  wake(): void {
    this.#mayBeMore = true;
    void this.#claimAll();
  }

  /** Claims no more, waits so long for what runs, and abandons the rest. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    const ended = this.#ended();
    await Promise.race([ended, sleep(graceMs, undefined, { ref: false })]);
    this.#stop.abort(new Abandoned("the gateway stops"));
    await ended;
  }

  /** What is claimed at this moment runs too. */
  async #ended(): Promise<void> {
    await this.#claim;
    await Promise.all(this.#running);
  }

  async #claimAll(): Promise<void> {
    if (this.#isClaiming) return;
    this.#isClaiming = true;
    while (this.#mayBeMore && this.#mayClaim) {
      this.#mayBeMore = false;
      const { authority, link } = this.#options;
      const [client, term] = [link.client, authority.term];
      // Who connects, or may work again, wakes it.
      if (client !== undefined && term !== undefined) await (this.#claim = this.#claimOne(client, term));
    }
    this.#isClaiming = false;
  }

  async #claimOne(client: LinkClient, term: Term): Promise<void> {
    const { now, registration, logger, onRefusal } = this.#options;
    // The time for the task begins at the server, which is later.
    const claimedAt = now();
    try {
      const { assignment } = await client.claimTask({ ...registration.ids, ...tokenOf(term) });
      if (assignment === undefined) return;
      this.#mayBeMore = true;
      this.#start(assignment, term, claimedAt);
    } catch (error) {
      const { code, details } = error as ServiceError;
      if (code === status.ABORTED) onRefusal();
      if (limitMs(error) > 0) this.#rest(limitMs(error));
      // The server tells again of tasks that nobody takes.
      logger.info({ reason: details }, "no task could be claimed");
    }
  }

  /** Leaves what the limit of requests allows to reports and heartbeats. */
  #rest(ms: number): void {
    this.#isResting = true;
    const rested = () => {
      this.#isResting = false;
      this.wake();
    };
    setTimeout(rested, ms).unref();
  }

  get #mayClaim(): boolean {
    return this.#running.size < this.#options.concurrency && !this.#isResting && !this.#isDraining;
  }

  #start(assignment: Assignment, term: Term, claimedAt: number): void {
    const { metrics } = this.#options;
    const work = this.#do(assignment, term, claimedAt).finally(() => {
      this.#running.delete(work);
      metrics.tasksRunning.set(this.#running.size);
      void this.#claimAll();
    });
    this.#running.add(work);
    metrics.tasksRunning.set(this.#running.size);
  }

  async #do(assignment: Assignment, term: Term, claimedAt: number): Promise<void> {
    const { now, metrics, logger } = this.#options;
    const { taskId, type, key, driver, attempt, timeoutSeconds } = assignment;
    const log = logger.child({ task_id: taskId, type, key, driver, attempt });
    log.info("claimed");
    const permit = permitFor({ term, now, endsAt: claimedAt + timeoutSeconds * 1000, stop: this.#stop.signal });
    const outcome = await this.#outcomeOf(assignment, term, permit, log);
    metrics.tasks.inc({ type, outcome });
    if (outcome === "succeeded" || outcome === "failed")
      metrics.taskDuration.observe({ type }, (now() - claimedAt) / 1000);
  }

  async #outcomeOf(assignment: Assignment, term: Term, permit: Permit, logger: Logger) {
    const { findDriver, onRefusal } = this.#options;
    try {
      permit.check();
      const outcome = await perform(assignment, { findDriver, permit, logger });
      return tell(await this.#reports.send({ assignment, term, permit, outcome }), logger);
    } catch (error) {
      if (error instanceof ReportRefused) {
        onRefusal();
        logger.warn({ reason: error.message }, "the report was refused");
        return "refused";
      }
      const isAbandoned = term.signal.aborted || this.#stop.signal.aborted;
      logger.warn(isAbandoned ? "abandoned" : "timed out");
      return isAbandoned ? "abandoned" : "timed_out";
    }
  }
}

function tell(outcome: Outcome, log: Logger): Outcome["case"] {
  if (outcome.case === "failed") {
    log.warn({ reason: outcome.value.message, permanent: outcome.value.permanent ?? false }, "failed");
  } else log.info("done");
  return outcome.case;
}
