import { addAbortListener } from "node:events";

/**
 * Waits for work, and no longer than until the signal is aborted: also for work that cannot be told. Rejects then with the
 * signal's reason.
 */
export async function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  using _ = addAbortListener(signal, () => aborted.reject(signal.reason));
  return await Promise.race([work, aborted.promise]);
}
