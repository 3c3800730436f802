import type { Permit } from "../../targets/drivers/driver.ts";
import { type Clock, machineClock } from "../../targets/machine-clock.ts";

/** The time that there is for an attempt is over. */
export class Overdue extends Error {}

/** Leave to make an attempt: for so long from now on, unless the program ends. */
export function permitFor(seconds: number, stop: AbortSignal, now: Clock = machineClock): Permit {
  const endsAt = now() + seconds * 1000;
  const overdue = () => new Overdue(`timed out after ${seconds} s`);
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(overdue()), seconds * 1000);
  timer.unref();
  const signal = AbortSignal.any([stop, timeout.signal]);
  return {
    signal,
    check() {
      // The timer may be late, and does not run while the machine sleeps.
      if (now() >= endsAt) throw overdue();
      signal.throwIfAborted();
    },
  };
}
