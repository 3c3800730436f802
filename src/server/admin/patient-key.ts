import { setTimeout as sleep } from "node:timers/promises";
import { KeyServiceError, type KeyWrapping } from "../seal/key-wrapping.ts";

const firstPauseMs = 500;
const longestPauseMs = 16_000;

/** The same key for work that can wait: a key service that is away, or has too much to do, gets half a minute. */
export function patient(key: KeyWrapping, signal: AbortSignal): KeyWrapping {
  const untilAnswered = async (ask: () => Promise<Buffer>): Promise<Buffer> => {
    for (let pauseMs = firstPauseMs; ; pauseMs *= 2) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof KeyServiceError && error.away) || pauseMs > longestPauseMs) throw error;
      }
      await sleep(pauseMs, undefined, { signal });
    }
  };
  return {
    setting: key.setting,
    wrap: (place, bytes) => untilAnswered(() => key.wrap(place, bytes)),
    unwrap: (place, wrapped) => untilAnswered(() => key.unwrap(place, wrapped)),
  };
}
