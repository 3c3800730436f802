import type { Permit } from "../targets/drivers/driver.ts";
import type { Clock } from "../targets/machine-clock.ts";
import type { Term } from "./authority.ts";

/** The time that there is for a task is over: the server has it done again. */
export class Overdue extends Error {}

interface PermitOptions {
  /** Under which the task was claimed. */
  readonly term: Term;
  readonly now: Clock;
  readonly endsAt: number;
  /** Aborted when the program ends. */
  readonly stop: AbortSignal;
}

/** Leave to do a task: as long as its term lasts, there is time for it, and the program does not end. */
export function permitFor({ term, now, endsAt, stop }: PermitOptions): Permit {
  // Whole milliseconds, which is all that it takes, and which the clock does not always give.
  const timeout = AbortSignal.timeout(Math.max(0, Math.ceil(endsAt - now())));
  const signal = AbortSignal.any([term.signal, stop, timeout]);
  return {
    signal,
    check() {
      term.check();
      if (now() >= endsAt) throw new Overdue("there is no time left");
      signal.throwIfAborted();
    },
  };
}
