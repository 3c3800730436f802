import type { Http2ServerRequest } from "node:http2";
import type { DescMethodServerStreaming, DescMethodUnary, DescService } from "@bufbuild/protobuf";
import {
  Code,
  type ConnectRouter,
  createContextValues,
  type HandlerContext,
  type Interceptor,
  type ServiceImpl,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ServerReflection } from "../../../gen/ts/grpc/reflection/v1/reflection_pb.ts";
import { Health } from "../../../gen/ts/health/v1/health_pb.ts";
import { invalidField, Refusal, toRefusal } from "../errors.ts";
import { type Call, callIn, callKey, callOf } from "./call.ts";
import { type Admit, requireIdentity } from "./chain.ts";
import type { Documents } from "./documents.ts";
import type { Completion } from "./finishing.ts";
import { grpcHealth } from "./grpc-health.ts";
import type { Exclusion } from "./holding.ts";
import type { Handler } from "./listener.ts";
import { rpcBodyLimits } from "./message-bytes.ts";
import { checkPolicies, policyOf } from "./policy.ts";
import type { Preparation } from "./preparing.ts";
import { reflection } from "./reflection.ts";
import { RestDoor } from "./rest.ts";
import { type HttpRequest, sendRefusal } from "./rest-answer.ts";
import { replacingErrors, type StreamCall, streamCalls } from "./stream-calls.ts";
import { type UnaryCall, unaryCalls } from "./unary-calls.ts";
import { longestTimeoutMs, sendGrpcRefusal, unaryGrpc } from "./unary-grpc.ts";
import { refuseNoCall, unaryWeb } from "./unary-web.ts";

/** A service of the contract and the object that implements it. */
export interface Service {
  readonly descriptor: DescService;
  readonly implementation: object;
  /** What single methods wait for before their transaction opens, by their names in the implementation. */
  readonly preparations?: Readonly<Record<string, Preparation>>;
  /** What single methods hold while they run, by their names in the implementation. */
  readonly exclusions?: Readonly<Record<string, Exclusion>>;
  /** What follows the commit of single methods before their answers leave, by their names in the implementation. */
  readonly completions?: Readonly<Record<string, Completion>>;
}

type Adapter = ReturnType<typeof connectNodeAdapter>;

interface DoorOptions {
  readonly services: readonly Service[];
  readonly admit: Admit;
  /** What follows once a call is admitted, the outermost first. */
  readonly chain: readonly Interceptor[];
  readonly newCall: (request: HttpRequest) => Call;
  readonly isHealthy: () => Promise<boolean>;
  /** The paths that are not in the contract. */
  readonly documents: Documents;
  readonly shutdown: AbortSignal;
}

/** All ways into the server on one port: REST by default, gRPC, gRPC-Web and Connect at the paths of the services. */
export function doors(options: DoorOptions): Handler {
  const { services, admit, chain, newCall, documents } = options;
  const calls = new Map<DescMethodUnary, UnaryCall>();
  const streamed = new Map<DescMethodServerStreaming, StreamCall>();
  for (const { descriptor, implementation } of services) {
    checkPolicies(descriptor);
    const links = [entrance(admit), ...chain];
    for (const [method, call] of unaryCalls(descriptor, implementation, links)) calls.set(method, call);
    for (const [method, call] of streamCalls(descriptor, implementation, links)) streamed.set(method, call);
  }
  const rest = new RestDoor({ calls, streams: streamed, newCall, admit });
  const listed = [...services.map(({ descriptor }) => descriptor), Health, ServerReflection];
  const names = listed.map(({ typeName }) => typeName);
  const health = grpcHealth(names, options.isHealthy);
  for (const [method, call] of unaryCalls(Health, health, [reading], () => undefined)) calls.set(method, call);
  const lean = unaryGrpc(calls, newCall);
  const web = unaryWeb(newCall);
  const streams = streamAdapters(options, health, reflection(listed));
  const rpcHandlers = new Map<string, Handler>();
  for (const descriptor of listed) {
    const adapter = descriptor === Health || descriptor === ServerReflection ? streams.standard : streams.ours;
    for (const method of descriptor.methods) {
      const run = method.methodKind === "unary" ? calls.get(method as DescMethodUnary) : undefined;
      const handler: Handler =
        run === undefined
          ? streaming(adapter, newCall)
          : (request, response) => web(request, response, method as DescMethodUnary, run);
      rpcHandlers.set(`/${descriptor.typeName}/${method.name}`, handler);
    }
  }
  return (request, response) => {
    if (request.httpVersionMajor === 2 && lean(request as Http2ServerRequest)) return;
    if (request.headers.host === undefined && request.httpVersion === "1.1") {
      sendRefusal(newCall(request), request, response, invalidField("header.Host", "is required"));
      return;
    }
    const url = request.url ?? "";
    if (url.charCodeAt(0) !== slash) request.url = originForm(url);
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    const rpc = rpcHandlers.get(path);
    if (rpc !== undefined) rpc(request, response);
    else if (isGrpc(request)) {
      const unknown = new Refusal("RESOURCE_NOT_FOUND", "unknown method", { rpc: Code.Unimplemented });
      sendGrpcRefusal((request as Http2ServerRequest).stream, newCall(request), unknown);
    } else if (!documents.serve(request, response, options)) rest.handle(request, response);
  };
}

const slash = 0x2f;

/** The path of an absolute target, which every server must take (RFC 9112 section 3.2.2). */
const originForm = (url: string) => url.replace(/^https?:\/\/[^/?#]*/i, "").replace(/^(?=\?|$)/, "/");

/** A gRPC call of an unknown method is answered in gRPC, not as an unknown path. */
const isGrpc = (request: HttpRequest) =>
  request.httpVersionMajor === 2 && /^application\/grpc(\+|;|$)/.test(request.headers["content-type"] ?? "");

/** Streams are Connect's: those of our services behind the chain, and those of the services that gRPC itself defines. */
function streamAdapters(
  { services, admit, chain, newCall, shutdown }: DoorOptions,
  health: ServiceImpl<typeof Health>,
  serverReflection: ServiceImpl<typeof ServerReflection>,
): { ours: Adapter; standard: Adapter } {
  const common = {
    readMaxBytes: rpcBodyLimits.mostBytes,
    maxTimeoutMs: longestTimeoutMs,
    shutdownSignal: shutdown,
    jsonOptions: { ignoreUnknownFields: true, useProtoFieldName: true, alwaysEmitImplicit: true },
  };
  return {
    ours: connectNodeAdapter({
      ...common,
      requestGate: (context) => admitBeforeReading(admit, context),
      interceptors: [describing, ...chain],
      contextValues: (request) => createContextValues().set(callKey, newCall(request)),
      routes: (router) => services.forEach((service) => addTo(router, service)),
    }),
    standard: connectNodeAdapter({
      ...common,
      routes: (router) => router.service(Health, health).service(ServerReflection, serverReflection),
    }),
  };
}

/** Connect answers what is no call at all without a body; here it is told in the specified shape. */
function streaming(adapter: Adapter, newCall: DoorOptions["newCall"]): Handler {
  return (request, response) => {
    const isCall = /^application\/(grpc|grpc-web|connect)(\+|;|$)/.test(request.headers["content-type"] ?? "");
    if (request.method === "POST" && isCall) {
      adapter(request, response);
      return;
    }
    refuseNoCall(newCall(request), request, response, "of gRPC, gRPC-Web or Connect");
  };
}

/** What the chain does for our own services: a message that could not be read is refused. */
const reading: Interceptor = (next) => async (request) => {
  const { unreadableBecause } = callIn(request);
  if (unreadableBecause !== undefined) throw unreadableBecause;
  return next(request);
};

function addTo(router: ConnectRouter, { descriptor, implementation }: Service): void {
  router.service(descriptor, implementation);
}

/** The first link, for doors that read nothing of a message before it. */
const entrance =
  (admit: Admit): Interceptor =>
  (next) =>
  async (request) => {
    await admit(callIn(request));
    return next(request);
  };

/** For streams, whose first message is read before the chain begins: who calls is settled before that. */
async function admitBeforeReading(admit: Admit, context: HandlerContext): Promise<void> {
  const call = callOf(context);
  call.policy = policyOf(context.method);
  try {
    await admit(call);
    requireIdentity(call, call.policy);
  } catch (error) {
    throw described(call, error);
  }
}

/** For streams: puts the call's headers on answers and errors alike. */
const describing: Interceptor = (next) => async (request) => {
  const call = callIn(request);
  try {
    const answer = await next(request);
    for (const [name, value] of Object.entries(call.headers)) answer.header.set(name, value);
    if (!answer.stream) return answer;
    return { ...answer, message: replacingErrors(answer.message, (error) => described(call, error)) };
  } catch (error) {
    throw described(call, error);
  }
};

function described(call: Call, error: unknown): Refusal {
  const refusal = toRefusal(error).describe(call.source.requestId);
  for (const [name, value] of Object.entries(call.headers)) refusal.metadata.set(name, value);
  return refusal;
}
