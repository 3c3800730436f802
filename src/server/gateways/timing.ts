import type { Config } from "../config.ts";

/** The times that failover goes by, in seconds; all follow from the heartbeat timeout (spec "Limits", gaps 8.2). */
export interface Timing {
  /** Silence of this length counts as one failure, and a gateway may go on without an answer for as long. */
  readonly heartbeatTimeout: number;
  /** Between two heartbeats: 30 at the usual timeout of 120. */
  readonly heartbeatInterval: number;
  /** Between two rounds of the monitor: 5. */
  readonly monitorInterval: number;
  /** When there was no round for so long, nobody could be heard of: 30. */
  readonly longestUnwatched: number;
  readonly failureThreshold: number;
  readonly taskTimeout: number;
  /** Between two checks of a configuration by a standby gateway; 0 for none. */
  readonly verifyInterval: number;
}

export function timingOf(config: Config): Timing {
  const heartbeatTimeout = config.HEARTBEAT_TIMEOUT_SECONDS;
  return {
    heartbeatTimeout,
    heartbeatInterval: heartbeatTimeout / 4,
    monitorInterval: Math.min(5, heartbeatTimeout / 8),
    longestUnwatched: heartbeatTimeout / 4,
    failureThreshold: config.FAILURE_THRESHOLD,
    taskTimeout: config.TASK_TIMEOUT_SECONDS,
    verifyInterval: config.GATEWAY_VERIFY_INTERVAL_SECONDS,
  };
}
