import { type ServiceError, status } from "@grpc/grpc-js";
import type { Sighting } from "./sightings.ts";

/** What a call ends with when it, or its answer, got lost on the way, or when the server says that it cannot serve it now. */
const lost: readonly status[] = [status.UNAVAILABLE, status.CANCELLED, status.DEADLINE_EXCEEDED];
/** What the server says to who is too late, or is not who it was. */
const refusals: readonly status[] = [status.ABORTED, status.FAILED_PRECONDITION, status.ALREADY_EXISTS];

/** What came of a call that did not come to a good end. */
export type Failure = "lost" | "refused" | "strange";

/** What gateways and operators have seen from outside, and how often things happened. */
export class Witness {
  readonly sightings: Sighting[] = [];
  /** Answers that no fault explains. */
  readonly strange: string[] = [];
  readonly #counts = new Map<string, number>();

  /** Without these the run would have shown nothing. */
  expect(...happenings: readonly string[]): void {
    for (const what of happenings) this.count(what, 0);
  }

  get missing(): string[] {
    return [...this.#counts.keys()].filter((what) => this.#counts.get(what) === 0);
  }

  count(what: string, times = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + times);
  }

  /** Takes note of how a gateway's call failed. */
  failed(who: string, what: string, { code, details, metadata }: ServiceError): Failure {
    // What the server itself says of an error it says in the metadata too.
    const isLost =
      lost.includes(code) || (code === status.INTERNAL && metadata.get("grpc-status-details-bin").length === 0);
    if (isLost) {
      this.count(`${what} without an answer`);
      return "lost";
    }
    if (refusals.includes(code)) {
      this.count(`${what} refused: ${withoutNumbers(details)}`);
      return "refused";
    }
    this.strange.push(`${who}: ${what}: ${status[code]} ${details}`);
    return "strange";
  }

  /** One line for each thing that happened, by name. */
  lines(): string[] {
    const counts = [...this.#counts].sort(([one], [other]) => one.localeCompare(other));
    return counts.map(([what, times]) => `${String(times).padStart(6)} × ${what}`);
  }
}

/** What a message says, without what differs from one to the next. */
export const withoutNumbers = (message: string): string => message.replace(/\d[\d.]*( seconds?)?/g, "…");
