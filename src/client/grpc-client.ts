import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  type ClientOptions,
  type ClientReadableStream,
  Metadata,
  type MethodDefinition,
  type ServiceError,
} from "@grpc/grpc-js";

type UnaryMethod<I extends DescMessage, O extends DescMessage> = (
  request: MessageInitShape<I>,
  metadata?: Metadata,
  options?: CallOptions,
) => Promise<MessageShape<O>>;

type StreamMethod<I extends DescMessage, O extends DescMessage> = (
  request: MessageInitShape<I>,
  metadata?: Metadata,
  options?: CallOptions,
) => ClientReadableStream<MessageShape<O>>;

/** A client of a service: unary methods are promises, server streams are readable. */
export type GrpcClient<S extends DescService> = {
  [M in keyof S["method"]]: S["method"][M] extends DescMethodUnary<infer I, infer O>
    ? UnaryMethod<I, O>
    : S["method"][M] extends DescMethodServerStreaming<infer I, infer O>
      ? StreamMethod<I, O>
      : never;
} & { close(): void };

/**
 * A @grpc/grpc-js client of a generated service, as in
 * `createGrpcClient(SecretService, "localhost:8080", credentials.createInsecure())`. Failed calls reject with a
 * ServiceError whose metadata holds `google.rpc.Status` under `grpc-status-details-bin`.
 */
export function createGrpcClient<S extends DescService>(
  service: S,
  address: string,
  credentials: ChannelCredentials,
  options?: ClientOptions,
): GrpcClient<S> {
  const client = new Client(address, credentials, options);
  const methods: Record<string, unknown> = { close: () => client.close() };
  for (const method of service.methods) {
    const { path, requestSerialize, responseDeserialize } = methodDefinition(method);
    if (method.methodKind === "unary") {
      methods[method.localName] = (
        request: MessageInitShape<DescMessage>,
        metadata = new Metadata(),
        callOptions: CallOptions = {},
      ) =>
        new Promise((resolve, reject) => {
          const done = (error: ServiceError | null, answer?: object) => (error ? reject(error) : resolve(answer));
          const message = create(method.input, request);
          client.makeUnaryRequest(path, requestSerialize, responseDeserialize, message, metadata, callOptions, done);
        });
    } else if (method.methodKind === "server_streaming") {
      methods[method.localName] = (
        request: MessageInitShape<DescMessage>,
        metadata = new Metadata(),
        callOptions: CallOptions = {},
      ) => {
        const message = create(method.input, request);
        return client.makeServerStreamRequest(
          path,
          requestSerialize,
          responseDeserialize,
          message,
          metadata,
          callOptions,
        );
      };
    }
  }
  return methods as GrpcClient<S>;
}

function methodDefinition(method: DescMethod): MethodDefinition<MessageShape<DescMessage>, MessageShape<DescMessage>> {
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    originalName: method.localName,
    requestStream: false,
    responseStream: method.methodKind === "server_streaming",
    requestSerialize: (message) => Buffer.from(toBinary(method.input, message)),
    requestDeserialize: (bytes) => fromBinary(method.input, bytes),
    responseSerialize: (message) => Buffer.from(toBinary(method.output, message)),
    responseDeserialize: (bytes) => fromBinary(method.output, bytes),
  };
}
