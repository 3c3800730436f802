import { uptime } from "node:os";

/** Whole milliseconds that pass at the same pace whatever is done to the time of day; from when on does not matter. */
export type Clock = () => number;

/** Goes on while this process is stopped, and while the machine sleeps, as `performance.now()` does not. */
export const machineClock: Clock = () => Math.round(uptime() * 1000);
