import { monitorEventLoopDelay } from "node:perf_hooks";

// Loaded into a server before its own code: tells the process that started it how late the event loop was.

/** How late timers were, in milliseconds. */
export interface Delays {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const resolution = 1;
const histogram = monitorEventLoopDelay({ resolution });
histogram.enable();

/** What is recorded is when a timer came after the one before it. */
const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolution);

process.on("message", () => {
  const { max } = histogram;
  const delays: Delays = { p50: late(histogram.percentile(50)), p99: late(histogram.percentile(99)), max: late(max) };
  process.send?.(delays);
  histogram.reset();
});
process.channel?.unref();
