import type { Http2ServerRequest } from "node:http2";
import type { DescMethodUnary, DescService } from "@bufbuild/protobuf";
import { type ConnectRouter, createContextValues, type Interceptor, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ServerReflection } from "../../../gen/ts/grpc/reflection/v1/reflection_pb.ts";
import { Health } from "../../../gen/ts/health/v1/health_pb.ts";
import { toRefusal } from "../errors.ts";
import { type Call, callKey, callOf } from "./call.ts";
import type { Documents } from "./documents.ts";
import { grpcHealth } from "./grpc-health.ts";
import type { Authenticate } from "./identity.ts";
import type { Handler } from "./listener.ts";
import { checkPolicies, policyOf } from "./policy.ts";
import type { RateLimits } from "./rate-limits.ts";
import { reflection } from "./reflection.ts";
import { type HttpRequest, RestDoor } from "./rest.ts";
import { type UnaryCall, unaryCalls } from "./unary-calls.ts";
import { unaryGrpc } from "./unary-grpc.ts";

const mostMessageBytes = 4 * 1024 * 1024;
const longestTimeoutMs = 3_600_000;

/** A service of the contract and the object that implements it. */
export interface Service {
  readonly descriptor: DescService;
  readonly implementation: object;
}

interface DoorOptions {
  readonly services: readonly Service[];
  /** The outermost first. */
  readonly chain: readonly Interceptor[];
  readonly newCall: (request: HttpRequest) => Call;
  readonly authenticate: Authenticate;
  readonly limits: RateLimits;
  readonly isHealthy: () => Promise<boolean>;
  /** The paths that are not in the contract. */
  readonly documents: Documents;
  readonly shutdown: AbortSignal;
}

/** All ways into the server on one port: REST by default, gRPC, gRPC-Web and Connect at the paths of the services. */
export function doors(options: DoorOptions): Handler {
  const { services, chain, newCall, documents, shutdown } = options;
  const calls = new Map<DescMethodUnary, UnaryCall>();
  for (const { descriptor, implementation } of services) {
    checkPolicies(descriptor);
    for (const [method, call] of unaryCalls(descriptor, implementation, chain)) calls.set(method, call);
  }
  const rest = new RestDoor({ calls, newCall, authenticate: options.authenticate, limits: options.limits });
  const lean = unaryGrpc(calls, newCall, mostMessageBytes);
  const common = {
    readMaxBytes: mostMessageBytes,
    maxTimeoutMs: longestTimeoutMs,
    shutdownSignal: shutdown,
    jsonOptions: { ignoreUnknownFields: true, useProtoFieldName: true, alwaysEmitImplicit: true },
  };
  const connect = connectNodeAdapter({
    ...common,
    interceptors: [describing, ...chain],
    contextValues: (request) => createContextValues().set(callKey, newCall(request)),
    routes: (router) => services.forEach(({ descriptor, implementation }) => addTo(router, descriptor, implementation)),
  });
  const listed = [...services.map(({ descriptor }) => descriptor), Health, ServerReflection];
  const names = listed.map(({ typeName }) => typeName);
  const standard = connectNodeAdapter({
    ...common,
    routes: (router) =>
      router.service(Health, grpcHealth(names, options.isHealthy)).service(ServerReflection, reflection(listed)),
  });
  const rpcPaths = new Map<string, typeof connect>();
  for (const { descriptor } of services)
    for (const { name } of descriptor.methods) rpcPaths.set(`/${descriptor.typeName}/${name}`, connect);
  for (const each of [Health, ServerReflection]) {
    for (const { name } of each.methods) rpcPaths.set(`/${each.typeName}/${name}`, standard);
  }
  return (request, response) => {
    if (request.httpVersionMajor === 2 && lean(request as Http2ServerRequest)) return;
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    const adapter = rpcPaths.get(path) ?? (isGrpc(request) ? connect : undefined);
    if (adapter !== undefined) adapter(request as never, response as never);
    else if (!documents.serve(request, response, () => newCall(request).headers)) rest.handle(request, response);
  };
}

/** A gRPC call of an unknown method is answered in gRPC, not as an unknown path. */
const isGrpc = (request: HttpRequest) => request.headers["content-type"]?.startsWith("application/grpc") === true;

function addTo(router: ConnectRouter, descriptor: DescService, implementation: object): void {
  router.service(descriptor, implementation as Partial<ServiceImpl<DescService>>);
}

/** For what goes through Connect: names the policy, and puts the call's headers on answers and errors alike. */
const describing: Interceptor = (next) => async (request) => {
  const call = callOf({ values: request.contextValues });
  call.policy = policyOf(request.method);
  try {
    const answer = await next(request);
    for (const [name, value] of Object.entries(call.headers)) answer.header.set(name, value);
    return answer;
  } catch (error) {
    const refusal = toRefusal(error).describe(call.source.requestId);
    for (const [name, value] of Object.entries(call.headers)) refusal.metadata.set(name, value);
    throw refusal;
  }
};
