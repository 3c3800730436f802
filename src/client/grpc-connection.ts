import type { DescService } from "@bufbuild/protobuf";
import {
  Channel,
  InterceptingCall,
  type Interceptor,
  ListenerBuilder,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { createGrpcClient, type GrpcClient } from "./grpc-client.ts";
import type { GrpcEndpoint } from "./grpc-endpoint.ts";

/** A unary call that takes longer has failed. */
const callTimeoutMs = 20_000;

const channelOptions = {
  // A replica that is gone without a word is noticed within the sum of the two.
  "grpc.keepalive_time_ms": 15_000,
  "grpc.keepalive_timeout_ms": 5_000,
  // Connections of channels that were closed would be shared, with what they still have to wait before they try again.
  "grpc.use_local_subchannel_pool": 1,
  // Whoever calls decides what is tried again.
  "grpc.enable_retries": 0,
  // A service configuration in DNS would be asked for with every connection.
  "grpc.service_config_disable_resolution": 1,
  // Behind one name may be many replicas.
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ pick_first: { shuffleAddressList: true } }] }),
  "grpc.enable_channelz": 0,
};

const closed = { code: status.CANCELLED, details: "the connection is closed", metadata: new Metadata() };

/** One HTTP/2 connection to a server, shared by clients of its services. Nothing is sent before the first call. */
export class GrpcConnection {
  readonly endpoint: GrpcEndpoint;
  readonly #channel: Channel;
  readonly #calls = new Set<InterceptingCall>();
  #isClosed = false;

  constructor(endpoint: GrpcEndpoint, userAgent: string) {
    this.endpoint = endpoint;
    this.#channel = new Channel(endpoint.target, endpoint.credentials, {
      ...channelOptions,
      "grpc.primary_user_agent": userAgent,
    });
  }

  /** A client that sends the token that `token` gives, when it is given. Unary calls fail after 20 seconds. */
  client<S extends DescService>(service: S, token?: () => Promise<string>): GrpcClient<S> {
    const { target, credentials } = this.endpoint;
    const interceptors = [this.#interceptor(token)];
    return createGrpcClient(service, target, credentials, { channelOverride: this.#channel, interceptors });
  }

  /** Ends every call that runs, and the connection. */
  close(): void {
    this.#isClosed = true;
    for (const call of this.#calls) call.cancelWithStatus(closed.code, closed.details);
    this.#channel.close();
  }

  /** Gives calls a deadline and the token, and keeps those that run. */
  #interceptor(token: (() => Promise<string>) | undefined): Interceptor {
    return (options, nextCall) => {
      const isUnary = !options.method_definition.responseStream;
      const running = nextCall(isUnary ? { deadline: Date.now() + callTimeoutMs, ...options } : options);
      const call = new InterceptingCall(running, {
        start: (metadata, listener, send) => {
          this.#calls.add(call);
          const untilEnded = new ListenerBuilder().withOnReceiveStatus((ended, pass) => {
            this.#calls.delete(call);
            pass(ended);
          });
          this.#authorize(metadata, token).then(
            () => send(metadata, untilEnded.build()),
            (error: ServiceError) => {
              this.#calls.delete(call);
              listener.onReceiveStatus(error);
            },
          );
        },
      });
      return call;
    };
  }

  async #authorize(metadata: Metadata, token: (() => Promise<string>) | undefined): Promise<void> {
    if (token !== undefined) metadata.set("authorization", `Bearer ${await token()}`);
    // A call that is begun now would never end.
    if (this.#isClosed) throw closed;
  }
}
