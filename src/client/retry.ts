import { setTimeout as pause } from "node:timers/promises";
import { type DescMethodUnary } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";

const tries = 5;
/** A window of the limits is a minute; what takes longer is a lock-out, which is told at once. */
const longestWaitMs = 60_000;
/** Grows with every try of a server that is away. */
const firstWaitMs = 200;

/**
 * A transport that tries again what the server has not done: any call past the limit of requests, when Retry-After says
 * so, and reads when the server is away. `onLimit` hears how many milliseconds a wait for the limit takes.
 */
export function retrying(transport: Transport, onLimit: (waitMs: number) => void): Transport {
  return {
    stream: (...call) => transport.stream(...call),
    async unary(method, ...call) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await transport.unary(method, ...call);
        } catch (error) {
          const waitMs = attempt < tries ? waitBefore(method, ConnectError.from(error), attempt) : undefined;
          if (waitMs === undefined) throw error;
          if (ConnectError.from(error).code === Code.ResourceExhausted) onLimit(waitMs);
          await pause(waitMs);
        }
      }
    },
  };
}

/** How long to wait before the next try; undefined when there should be none. */
function waitBefore(method: DescMethodUnary, { code, metadata }: ConnectError, attempt: number): number | undefined {
  const after = metadata.get("retry-after");
  const afterMs = after === null ? undefined : Number(after) * 1000;
  if (code === Code.ResourceExhausted) return afterMs !== undefined && afterMs <= longestWaitMs ? afterMs : undefined;
  const isAway = code === Code.Unavailable || (code === Code.Aborted && isConnectionLost(metadata));
  const isRead = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
  return isAway && isRead ? (afterMs ?? firstWaitMs * attempt) : undefined;
}

/** A connection that was lost leaves no headers; a conflict, which has the same code, came with some. */
const isConnectionLost = (metadata: Headers) => [...metadata].length === 0;
