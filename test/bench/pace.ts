import { setTimeout as sleep } from "node:timers/promises";

/** Each caller in its turn, once in `everyMs`; answers how many milliseconds after it was due each call was answered. */
export async function atPace<Caller>(
  callers: readonly Caller[],
  everyMs: number,
  measureMs: number,
  call: (caller: Caller) => Promise<unknown>,
): Promise<Float64Array> {
  const beganAt = performance.now();
  const latencies: number[] = [];
  const keepPace = async (caller: Caller, firstMs: number) => {
    for (let dueMs = firstMs; dueMs < measureMs; dueMs += everyMs) {
      await sleep(Math.max(0, beganAt + dueMs - performance.now()));
      await call(caller);
      latencies.push(performance.now() - beganAt - dueMs);
    }
  };
  await Promise.all(callers.map((caller, index) => keepPace(caller, (index / callers.length) * everyMs)));
  return Float64Array.from(latencies);
}
