import { randomUUID } from "node:crypto";
import {
  type Assignment,
  GatewayLinkService,
  type Notice,
  type Standing,
} from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { GrpcClient } from "../../src/client/grpc-client.ts";
import { GrpcConnection } from "../../src/client/grpc-connection.ts";
import { type GrpcEndpoint, grpcEndpoint } from "../../src/client/grpc-endpoint.ts";
import { loginOverGrpc } from "../../src/client/login-over-grpc.ts";
import type { GatewayAccount } from "./load.ts";

/** A gateway that has registered, on a connection of its own, by the code that gateways use. */
export class ConnectedGateway {
  isWatching = false;
  readonly #connection: GrpcConnection;
  readonly #link: GrpcClient<typeof GatewayLinkService>;
  readonly #instanceId = randomUUID();
  #id = "";
  /** The fencing token, as long as it was active when it was last told. */
  #token: string | undefined;

  private constructor(connection: GrpcConnection, token: string) {
    this.#connection = connection;
    this.#link = connection.client(GatewayLinkService, async () => token);
  }

  static async open(port: number, account: GatewayAccount): Promise<ConnectedGateway> {
    const { clientId, clientSecret, name, environment, role } = account;
    const connection = new GrpcConnection(grpcEndpoint(`http://127.0.0.1:${port}`) as GrpcEndpoint, "holdfast-bench");
    const { token } = await loginOverGrpc(connection, clientId, clientSecret);
    const gateway = new ConnectedGateway(connection, token);
    await gateway.#register({ name, environment, role });
    return gateway;
  }

  async #register(place: Pick<GatewayAccount, "name" | "environment" | "role">): Promise<void> {
    const { gatewayId, standing } = await this.#link.register({
      ...place,
      instanceId: this.#instanceId,
      version: "1.0.0",
    });
    this.#id = gatewayId;
    this.#told(standing);
  }

  get id(): string {
    return this.#id;
  }

  /** When it was last told how it stands. */
  get isActive(): boolean {
    return this.#token !== undefined;
  }

  get #self() {
    return { gatewayId: this.#id, instanceId: this.#instanceId };
  }

  /** With the token, while there is one. */
  get #credentials() {
    return this.#token === undefined ? this.#self : { ...this.#self, fencingToken: this.#token };
  }

  #told(standing: Standing | undefined): void {
    this.#token = standing?.fencingToken;
  }

  async heartbeat(): Promise<void> {
    this.#told(await this.#link.heartbeat(this.#self));
  }

  /** Opens the stream of notices; resolves when the first has come. */
  watch(heard: (notice: Notice["kind"]) => void = () => {}): Promise<void> {
    return new Promise((resolve, reject) => {
      const lost = (error?: Error) => {
        this.isWatching = false;
        reject(error ?? new Error("the stream of notices ended"));
      };
      const stream = this.#link.watchTasks(this.#self);
      stream.on("error", lost).on("end", lost);
      stream.on("data", ({ kind }: Notice) => {
        this.isWatching = true;
        if (kind.case === "standing") this.#told(kind.value);
        heard(kind);
        resolve();
      });
    });
  }

  async claim(): Promise<Assignment | undefined> {
    return (await this.#link.claimTask(this.#credentials)).assignment;
  }

  async complete({ taskId, claimId }: Assignment): Promise<void> {
    await this.#link.completeTask({
      ...this.#credentials,
      taskId,
      claimId,
      outcome: { case: "succeeded", value: {} },
    });
  }

  close(): void {
    this.#connection.close();
  }
}
