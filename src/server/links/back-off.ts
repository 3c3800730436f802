const shortestMs = 10_000;
const longestMs = 15 * 60_000;
/** A destination may ask for more time than the longest pause, but not for ever. */
const longestAskedMs = 60 * 60_000;
const jitter = 0.1;

/** How long a place is left alone after so many failures in a row (gaps 4.2); longer, if it asks for that. */
export function pauseMs(failures: number, retryAfterMs = 0): number {
  const doubled = Math.min(shortestMs * 2 ** (failures - 1), longestMs);
  const spread = doubled * (1 + jitter * (2 * Math.random() - 1));
  return Math.round(Math.max(spread, Math.min(retryAfterMs, longestAskedMs)));
}
