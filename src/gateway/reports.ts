import { setTimeout as sleep } from "node:timers/promises";
import { type ServiceError, status } from "@grpc/grpc-js";
import type { Assignment } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { fullJitter, limitMs } from "../client/stay-connected.ts";
import type { Permit } from "../targets/drivers/driver.ts";
import { Abandoned, type Term } from "./authority.ts";
import type { Link, LinkClient } from "./link.ts";
import type { Outcome } from "./perform.ts";
import type { Registration } from "./registration.ts";

/** The server does not take the report, and would not later. */
export class ReportRefused extends Error {}

/** A task that was done, and its claim. */
interface Done {
  readonly assignment: Assignment;
  readonly term: Term;
  readonly permit: Permit;
  readonly outcome: Outcome;
}

const retry = { baseMs: 200, mostMs: 2000 };

/** By these the server says that this very report is of no use. */
const refusals: ReadonlySet<unknown> = new Set([
  status.ABORTED,
  status.FAILED_PRECONDITION,
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.PERMISSION_DENIED,
  status.UNIMPLEMENTED,
]);

/** Reports what became of tasks. */
export class Reports {
  readonly #link: Link;
  readonly #registration: Registration;

  constructor(link: Link, registration: Registration) {
    this.#link = link;
    this.#registration = registration;
  }

  /**
   * Reports over one connection after the other, the same each time, until the server has taken it or the permit ends;
   * answers what it has taken. Throws ReportRefused, and what the permit or the term ends with: then nothing was sent
   * that was not sent before.
   */
  async send(done: Done): Promise<Outcome> {
    for (let attempt = 0; ; attempt += 1) {
      // One that is ready in time is sent once, whatever the clock says; the server judges.
      const client = this.#link.client ?? (await this.#link.opening(done.permit.signal));
      try {
        return await this.#sendOver(client, done);
      } catch (error) {
        if (error instanceof Abandoned) throw error;
        const { code, details } = error as ServiceError;
        if (refusals.has(code)) throw new ReportRefused(details, { cause: error });
        await sleep(limitMs(error) + fullJitter(attempt, retry), undefined, { signal: done.permit.signal });
      }
      done.permit.check();
    }
  }

  async #sendOver(client: LinkClient, { assignment, term, outcome }: Done): Promise<Outcome> {
    const { taskId, claimId } = assignment;
    const claim = { ...this.#registration.ids, taskId, claimId, ...tokenOf(term) };
    term.check();
    try {
      await client.completeTask({ ...claim, outcome });
      return outcome;
    } catch (error) {
      const { code, details } = error as ServiceError;
      // A value that the target made, and that a secret cannot have.
      if (code !== status.INVALID_ARGUMENT || outcome.case !== "succeeded") throw error;
      const failed = { message: `the server refuses the value: ${details}`.slice(0, 1000), permanent: true };
      const instead: Outcome = { case: "failed", value: failed };
      term.check();
      await client.completeTask({ ...claim, outcome: instead });
      return instead;
    }
  }
}

/** What a call carries of a term; a standby gateway has no token. */
export const tokenOf = ({ fencingToken }: Term) => (fencingToken === undefined ? {} : { fencingToken });
