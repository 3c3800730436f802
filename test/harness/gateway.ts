import { randomBytes, randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type Assignment,
  type CompleteTaskRequestSchema,
  GatewayLinkService,
  type Notice,
  type Standing,
} from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { GrpcClient } from "../../src/client/grpc-client.ts";
import { Client } from "./client.ts";
import { Watch } from "./host.ts";
import type { TestServer } from "./server.ts";

type Outcome = NonNullable<MessageInitShape<typeof CompleteTaskRequestSchema>["outcome"]>;

interface RegistrationFields {
  /** One of its own unless given. */
  readonly environment?: string;
  readonly role?: "primary" | "dr-standby";
  readonly name?: string;
  /** The replica that the gateway talks to. */
  readonly url?: string;
  /** Who makes its identity: the first administrator unless another one does. */
  readonly by?: Client;
}

const anything = (prefix: string) => `${prefix}-${randomBytes(4).toString("hex")}`;

/** A gateway that speaks gRPC, and that does what a test says: it beats when told to. It closes before its server stops. */
export class TestGateway {
  readonly name: string;
  readonly environment: string;
  readonly role: "primary" | "dr-standby";
  /** The machine identity, logged in. */
  readonly client: Client;
  readonly link: GrpcClient<typeof GatewayLinkService>;
  /** Of the gateway, once it has registered. */
  id = "";
  instanceId: string = randomUUID();
  /** How it stood when it was last told. */
  standing: Standing | undefined;
  readonly #server: TestServer;
  readonly #watches = new Set<Watch<Notice>>();

  constructor(server: TestServer, client: Client, fields: RegistrationFields = {}) {
    this.#server = server;
    this.client = client;
    this.link = client.grpc(GatewayLinkService);
    this.name = fields.name ?? anything("gateway");
    this.environment = fields.environment ?? anything("environment");
    this.role = fields.role ?? "primary";
    server.beforeStop(() => this.close());
  }

  /** A new gateway that has registered, a primary unless told otherwise, with an identity of its own. */
  static async register(server: TestServer, fields: RegistrationFields = {}): Promise<TestGateway> {
    const gateway = await TestGateway.prepare(server, fields);
    await gateway.register();
    return gateway;
  }

  /** A gateway that has an identity of its own and has not registered yet. */
  static async prepare(server: TestServer, fields: RegistrationFields = {}): Promise<TestGateway> {
    const { token, id } = await server.as(anything("identity"), ["gateway"], fields.by);
    return new TestGateway(server, new Client(fields.url ?? server.url, token, id), fields);
  }

  /** Active, standby or failed, when it was last told. */
  get status(): string | undefined {
    return this.standing?.activationStatus;
  }

  /** The fencing token, when it was active when it was last told. */
  get token(): string | undefined {
    return this.standing?.fencingToken;
  }

  get #self() {
    return { gatewayId: this.id, instanceId: this.instanceId };
  }

  get #credentials() {
    return this.token === undefined ? this.#self : { ...this.#self, fencingToken: this.token };
  }

  async register(): Promise<Standing> {
    const { name, environment, role, instanceId } = this;
    const answer = await this.link.register(
      { name, environment, role, instanceId, version: "1.0.0", hostname: `${name}.example.com`, region: "eu-west-1" },
      this.client.metadata(),
    );
    this.id = answer.gatewayId;
    return this.#told(answer.standing as Standing);
  }

  async heartbeat(): Promise<Standing> {
    return this.#told(await this.link.heartbeat(this.#self, this.client.metadata()));
  }

  #told(standing: Standing): Standing {
    this.standing = standing;
    return standing;
  }

  /** Lets it have been silent for so much longer, by the database's clock; 361 is just past three timeouts of two minutes. */
  fallSilent(seconds = 361): Promise<unknown> {
    return this.#server.sql(
      `update gateway set last_heartbeat = last_heartbeat - make_interval(secs => $2),
         silent_since = silent_since - make_interval(secs => $2) where id = $1`,
      [this.id, seconds],
    );
  }

  /** The next task, if there is one; under the token that it was last told. */
  async claim(): Promise<Assignment | undefined> {
    return (await this.link.claimTask(this.#credentials, this.client.metadata())).assignment;
  }

  /** Reports how a task went: well, unless told otherwise. */
  complete(
    { taskId, claimId }: Pick<Assignment, "taskId" | "claimId">,
    outcome: Outcome = { case: "succeeded", value: {} },
  ) {
    return this.link.completeTask({ ...this.#credentials, taskId, claimId, outcome }, this.client.metadata());
  }

  /** Waits for notices; the first says how it stands. */
  watch(): Watch<Notice> {
    const watch = new Watch<Notice>(this.link.watchTasks(this.#self, this.client.metadata()));
    this.#watches.add(watch);
    return watch;
  }

  /** The same process of it at another replica, or at one that was started again. */
  at(url: string): TestGateway {
    const same = new TestGateway(this.#server, new Client(url, this.client.token, this.client.id), this);
    same.id = this.id;
    same.instanceId = this.instanceId;
    same.standing = this.standing;
    return same;
  }

  /** Another process of it takes over: registered anew. */
  restart(): Promise<Standing> {
    this.instanceId = randomUUID();
    return this.register();
  }

  close(): void {
    for (const watch of this.#watches) watch.cancel();
    this.link.close();
  }
}
