import { create, type DescMethodUnary, type DescService, type Message } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ContextValues,
  createContextValues,
  type HandlerContext,
  type Interceptor,
  type ServiceImpl,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";
import { type Call, callKey } from "./call.ts";
import type { RestMethod } from "./http-rule.ts";
import { type MethodPolicy, policyOf } from "./policy.ts";

/** What a door hands over beside the message. */
export interface Incoming {
  readonly call: Call;
  readonly protocolName: string;
  readonly url: string;
  readonly timeoutMs?: number | undefined;
  /** Calls back once when the caller goes away before the answer was sent. */
  onGone(listener: () => void): void;
}

/** What a method answered: a message, or what `messageOf` makes one of. */
export type Answer = Message | (object & { readonly $typeName?: undefined });

/** Runs a method behind the chain and resolves to its answer; throws what the chain throws. */
export type UnaryCall = (incoming: Incoming, message: Message) => Promise<Answer>;

export const messageOf = (method: DescMethodUnary, answer: Answer): Message =>
  answer.$typeName === undefined ? create(method.output, answer as never) : answer;

type Next = (request: UnaryRequest) => Promise<UnaryResponse>;
const contextSymbol = Symbol("context");
const noHeaders = new Headers();

/** A handler context that makes its signal and headers only when asked: most methods never look at them. */
export class LeanContext implements HandlerContext {
  readonly service: DescService;
  readonly method: RestMethod;
  readonly protocolName: string;
  readonly requestMethod = "POST";
  readonly url: string;
  readonly values: ContextValues;
  readonly #incoming: Incoming;
  readonly #deadline: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #signal: AbortSignal | undefined;
  #requestHeader: Headers | undefined;

  constructor(method: RestMethod, incoming: Incoming) {
    this.service = method.parent;
    this.method = method;
    this.protocolName = incoming.protocolName;
    this.url = incoming.url;
    this.values = createContextValues().set(callKey, incoming.call);
    this.#incoming = incoming;
    this.#deadline = incoming.timeoutMs === undefined ? undefined : performance.now() + incoming.timeoutMs;
  }

  /** Methods read headers through `callOf(context).source.header(name)`, which is the same in every door. */
  get requestHeader(): Headers {
    this.#requestHeader ??= new Headers();
    return this.#requestHeader;
  }

  get responseHeader(): Headers {
    return noHeaders;
  }

  get responseTrailer(): Headers {
    return noHeaders;
  }

  timeoutMs(): number | undefined {
    return this.#deadline === undefined ? undefined : this.#deadline - performance.now();
  }

  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      const abort = new AbortController();
      this.#signal = abort.signal;
      this.#incoming.onGone(() => abort.abort(new ConnectError("the caller went away", Code.Canceled)));
      const left = this.timeoutMs();
      if (left !== undefined) {
        const expire = () => abort.abort(new ConnectError("the deadline passed", Code.DeadlineExceeded));
        this.#timer = setTimeout(expire, Math.max(0, left));
      }
    }
    return this.#signal;
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** What the interceptors see of a call. */
class LeanRequest {
  readonly stream = false;
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly requestMethod = "POST";
  readonly url: string;
  readonly contextValues: ContextValues;
  readonly message: Message;
  readonly [contextSymbol]: LeanContext;

  constructor(context: LeanContext, message: Message) {
    this.service = context.service;
    this.method = context.method as DescMethodUnary;
    this.url = context.url;
    this.contextValues = context.values;
    this.message = message;
    this[contextSymbol] = context;
  }

  get header(): Headers {
    return this[contextSymbol].requestHeader;
  }

  get signal(): AbortSignal {
    return this[contextSymbol].signal;
  }
}

/**
 * The unary methods of a service behind the interceptors, composed once; Connect composes them anew for each call.
 * `policy` is what the chain enforces: nothing for the services that gRPC itself defines.
 */
export function unaryCalls<S extends DescService>(
  service: S,
  implementation: Partial<ServiceImpl<S>>,
  interceptors: readonly Interceptor[],
  policy: (method: DescMethodUnary) => MethodPolicy | undefined = policyOf,
): Map<DescMethodUnary, UnaryCall> {
  const calls = new Map<DescMethodUnary, UnaryCall>();
  for (const method of service.methods) {
    if (method.methodKind !== "unary") continue;
    const unary = method as DescMethodUnary;
    calls.set(unary, unaryCall(unary, implementation, interceptors, policy(unary)));
  }
  return calls;
}

/** What implements a method. Throws when nothing does: that stops the start. */
export function implementationOf(
  method: RestMethod,
  implementation: object,
): (message: Message, context: HandlerContext) => unknown {
  const found = (implementation as Record<string, unknown>)[method.localName];
  if (typeof found !== "function") throw new Error(`${method.parent.typeName}.${method.name} is not implemented`);
  return found.bind(implementation) as (message: Message, context: HandlerContext) => unknown;
}

function unaryCall(
  method: DescMethodUnary,
  implementation: object,
  interceptors: readonly Interceptor[],
  policy: MethodPolicy | undefined,
): UnaryCall {
  const run = implementationOf(method, implementation);
  const last: Next = async (request) => {
    // Left as the method answered it: the doors that need a message make one.
    const message = (await run(request.message, (request as unknown as LeanRequest)[contextSymbol])) as Message;
    const { service } = request;
    return { stream: false, service, method, message, header: noHeaders, trailer: noHeaders };
  };
  const first = interceptors.reduceRight<Next>((next, interceptor) => interceptor(next as never) as never, last);
  return async (incoming, message) => {
    incoming.call.policy = policy;
    const context = new LeanContext(method, incoming);
    try {
      const { message: answer } = await first(new LeanRequest(context, message));
      return answer;
    } finally {
      context.end();
    }
  };
}
