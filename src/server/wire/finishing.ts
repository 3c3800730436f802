import type { DescMethod, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { type Call, callIn } from "./call.ts";
import type { Service } from "./doors.ts";
import { type Answer, messageOf } from "./unary-calls.ts";

/**
 * What follows once the transaction of a method has committed and before its answer leaves, since a transaction waits for
 * nobody outside. Gets what the method answered, also when that is replayed, and answers what leaves instead.
 */
export type Completion = (answer: never, call: Call, signal: AbortSignal) => Promise<Answer>;

/** Completes the answers of methods that say how. What a completion throws is the outcome; what was committed stands. */
export function finishing(services: readonly Service[]): Interceptor {
  const completions = new Map<DescMethod, (answer: Message, call: Call, signal: AbortSignal) => Promise<Answer>>();
  for (const { descriptor, completions: declared = {} } of services) {
    for (const [name, complete] of Object.entries(declared)) {
      const method = descriptor.method[name];
      if (method === undefined) throw new Error(`${descriptor.typeName} has no method ${name} to finish`);
      completions.set(method, complete as never);
    }
  }
  return (next) => async (request) => {
    const answer = await next(request);
    const complete = completions.get(request.method);
    if (complete === undefined || answer.stream || request.stream) return answer;
    const message = messageOf(answer.method, answer.message);
    const completed = await complete(message, callIn(request), request.signal);
    return { ...answer, message: messageOf(answer.method, completed) };
  };
}
