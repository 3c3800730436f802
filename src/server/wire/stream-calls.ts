import type { DescMethodServerStreaming, DescService, Message } from "@bufbuild/protobuf";
import type { Interceptor, StreamRequest, StreamResponse } from "@connectrpc/connect";
import { isRestMethod } from "./http-rule.ts";
import { policyOf } from "./policy.ts";
import { type Incoming, implementationOf, LeanContext } from "./unary-calls.ts";

/** Runs a method that answers a stream, behind the chain; what the chain throws may come with the first message. */
export type StreamCall = (incoming: Incoming, message: Message) => AsyncIterable<Message>;

type Next = (request: StreamRequest) => Promise<StreamResponse>;

/** The server-streaming methods of a service behind the interceptors, for doors that are not Connect's. */
export function streamCalls(
  service: DescService,
  implementation: object,
  interceptors: readonly Interceptor[],
): Map<DescMethodServerStreaming, StreamCall> {
  const calls = new Map<DescMethodServerStreaming, StreamCall>();
  for (const method of service.methods) {
    if (!isRestMethod(method) || method.methodKind !== "server_streaming") continue;
    calls.set(method, streamCall(method, implementation, interceptors));
  }
  return calls;
}

function streamCall(
  method: DescMethodServerStreaming,
  implementation: object,
  interceptors: readonly Interceptor[],
): StreamCall {
  const run = implementationOf(method, implementation);
  return async function* call(incoming, given) {
    incoming.call.policy = policyOf(method);
    const context = new LeanContext(method, incoming);
    const last: Next = async ({ message }) => {
      const { value: asked } = await message[Symbol.asyncIterator]().next();
      const answer = run(asked, context) as AsyncIterable<Message>;
      return { ...common, stream: true, message: answer, header: new Headers(), trailer: new Headers() };
    };
    const common = { service: method.parent, method };
    const first = interceptors.reduceRight<Next>((next, interceptor) => interceptor(next as never) as never, last);
    const { url, values: contextValues, requestHeader: header, signal } = context;
    const request = { ...common, url, contextValues, header, signal, requestMethod: "POST", message: only(given) };
    try {
      yield* (await first({ ...request, stream: true })).message;
    } finally {
      context.end();
    }
  };
}

async function* only(message: Message): AsyncGenerator<Message> {
  yield message;
}

/** The messages of a stream; an error on the way is replaced by what `replace` makes of it. */
export async function* replacingErrors<T>(
  messages: AsyncIterable<T>,
  replace: (error: unknown) => Error | Promise<Error>,
): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw await replace(error);
  }
}
