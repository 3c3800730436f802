import type { GatewayLinkService } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { GrpcClient } from "../client/grpc-client.ts";

export type LinkClient = GrpcClient<typeof GatewayLinkService>;

/** The server, over whichever connection there is: work outlives connections. */
export class Link {
  #client: LinkClient | undefined;
  #next = Promise.withResolvers<LinkClient>();

  /** Undefined while there is no connection. */
  get client(): LinkClient | undefined {
    return this.#client;
  }

  opened(client: LinkClient): void {
    this.#client = client;
    this.#next.resolve(client);
  }

  closed(): void {
    this.#client = undefined;
    this.#next = Promise.withResolvers();
  }

  /** Waits for a connection. Rejects with what `signal` is aborted with. */
  async opening(signal: AbortSignal): Promise<LinkClient> {
    signal.throwIfAborted();
    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort);
    try {
      return await Promise.race([this.#next.promise, aborted.promise]);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }
}
