import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceError } from "@grpc/grpc-js";
import {
  type Assignment,
  type CompleteTaskRequestSchema,
  GatewayLinkService,
  type Standing,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { GrpcClient } from "../../../src/client/grpc-client.ts";
import { GrpcConnection } from "../../../src/client/grpc-connection.ts";
import { type GrpcEndpoint, grpcEndpoint } from "../../../src/client/grpc-endpoint.ts";
import type { GatewayProcess } from "./gateway.ts";
import type { Failure, Witness } from "./witness.ts";

type Outcome = NonNullable<MessageInitShape<typeof CompleteTaskRequestSchema>["outcome"]>;

export interface SimulatedProcessOptions {
  /** Replicas of the server. */
  readonly urls: readonly string[];
  readonly token: string;
  readonly name: string;
  readonly environment: string;
  readonly role: "primary" | "dr-standby";
  readonly random: () => number;
  readonly witness: Witness;
}

/** A call ends within that time. */
const callMs = 4000;
/** Between two looks for work when no stream says that there is some. */
const pollMs = 700;
const longestWorkMs = 200;
/** How often work is never reported, fails, and fails for good. */
const probability = { loss: 0.02, failure: 0.08, permanence: 0.25 };

/**
 * A process of a gateway that runs within this one. It has no lease of its own, and goes on with what it began when it
 * had stood still, so that only the server keeps it from doing harm.
 */
export class SimulatedProcess implements GatewayProcess {
  readonly #options: SimulatedProcessOptions;
  readonly #instanceId = randomUUID();
  #gatewayId = "";
  #standing: Standing | undefined;
  #isOver = false;
  readonly #over = Promise.withResolvers<boolean>();
  /** Settles when it goes on after a pause. */
  #pause: PromiseWithResolvers<void> | undefined;
  /** Settles when there may be something to do. */
  #news = Promise.withResolvers<void>();
  #connection: GrpcConnection | undefined;
  #link!: GrpcClient<typeof GatewayLinkService>;

  constructor(options: SimulatedProcessOptions) {
    this.#options = options;
    void this.#live();
  }

  pause(): void {
    this.#pause ??= Promise.withResolvers();
  }

  resume(): void {
    this.#pause?.resolve();
    this.#pause = undefined;
  }

  kill(): void {
    this.#end(false);
  }

  get superseded(): Promise<boolean> {
    return this.#over.promise;
  }

  #end(isSuperseded: boolean): void {
    this.#isOver = true;
    this.#over.resolve(isSuperseded);
    this.#connection?.close();
    this.#news.resolve();
    this.resume();
  }

  async #live(): Promise<void> {
    this.#connect();
    while (!this.#isOver && this.#gatewayId === "") {
      const { name, environment, role } = this.#options;
      const { instanceId } = this.#self;
      const request = { name, environment, role, instanceId, version: "1.0.0", hostname: name, region: "here" };
      const answer = await this.#attempt("registrations", this.#link.register(request, undefined, deadline()));
      if (typeof answer === "string") await this.#retreat();
      else {
        this.#gatewayId = answer.gatewayId;
        this.#hear(answer.standing);
      }
    }
    await Promise.all([this.#beat(), this.#watch(), this.#work()]);
  }

  get #self() {
    return { gatewayId: this.#gatewayId, instanceId: this.#instanceId };
  }

  /** The answer of a call, or how it failed. Who stands still hears of neither before it goes on. */
  async #attempt<T extends object>(what: string, call: Promise<T>): Promise<T | Failure> {
    const answer = await call.catch((error: ServiceError) =>
      // What is cut off by its own end concerns nobody.
      this.#isOver ? "lost" : this.#options.witness.failed(this.#options.name, what, error),
    );
    await this.#pause?.promise;
    return answer;
  }

  async #rest(ms: number): Promise<void> {
    await sleep(ms);
    await this.#pause?.promise;
  }

  #connect(): void {
    const { urls, token, random } = this.#options;
    const endpoint = grpcEndpoint(urls[Math.floor(random() * urls.length)] ?? "") as GrpcEndpoint;
    this.#connection?.close();
    this.#connection = new GrpcConnection(endpoint, "holdfast-test");
    this.#link = this.#connection.client(GatewayLinkService, async () => token);
  }

  /** Goes to another replica, perhaps, after a moment. */
  async #retreat(): Promise<void> {
    await this.#rest(100 + this.#options.random() * 200);
    if (!this.#isOver) this.#connect();
  }

  #hear(standing: Standing | undefined): void {
    const { activationStatus, fencingToken } = standing ?? {};
    const isNew = fencingToken !== this.#standing?.fencingToken;
    this.#standing = standing;
    if (!isNew || fencingToken === undefined || activationStatus !== "active") return;
    this.#options.witness.sightings.push({ of: "standing", gateway: this.#gatewayId, token: BigInt(fencingToken) });
    this.#news.resolve();
  }

  async #beat(): Promise<void> {
    while (!this.#isOver) {
      const answer = await this.#attempt("heartbeats", this.#link.heartbeat(this.#self, undefined, deadline()));
      if (answer === "refused") this.#end(true);
      if (answer === "lost") await this.#retreat();
      else if (typeof answer === "object") this.#hear(answer);
      await this.#rest((this.#standing?.heartbeatIntervalSeconds ?? 1) * 1000);
    }
  }

  async #watch(): Promise<void> {
    while (!this.#isOver) {
      const follow = async () => {
        for await (const { kind } of this.#link.watchTasks(this.#self)) {
          await this.#pause?.promise;
          if (kind.case === "standing") this.#hear(kind.value);
          else this.#news.resolve();
        }
        return {};
      };
      await this.#attempt("streams", follow());
      await this.#rest(pollMs);
    }
  }

  async #work(): Promise<void> {
    while (!this.#isOver) {
      const fencingToken = this.#standing?.fencingToken;
      const isChecking = fencingToken === undefined;
      const claim = this.#link.claimTask(
        isChecking ? this.#self : { ...this.#self, fencingToken },
        undefined,
        deadline(),
      );
      const answer = await this.#attempt("claims", claim);
      const assignment = typeof answer === "object" ? answer.assignment : undefined;
      if (assignment !== undefined) await this.#carryOut(assignment, fencingToken);
      else {
        await Promise.race([this.#news.promise, this.#rest(pollMs)]);
        this.#news = Promise.withResolvers();
      }
    }
  }

  /** Its report is repeated until there is an answer, whatever became of the gateway meanwhile. */
  async #carryOut(assignment: Assignment, fencingToken: string | undefined): Promise<void> {
    const { random, witness } = this.#options;
    const { taskId, claimId, value } = assignment;
    witness.sightings.push({ of: "assignment", task: taskId, claim: claimId, value });
    await this.#rest(random() * longestWorkMs);
    if (random() < probability.loss) return;
    const isFailing = random() < probability.failure;
    const isPermanent = isFailing && random() < probability.permanence;
    const outcome: Outcome = isFailing
      ? { case: "failed", value: { message: "the target refused", permanent: isPermanent } }
      : { case: "succeeded", value: {} };
    const credentials = fencingToken === undefined ? this.#self : { ...this.#self, fencingToken };
    while (!this.#isOver) {
      const report = this.#link.completeTask({ ...credentials, taskId, claimId, outcome }, undefined, deadline());
      const answer = await this.#attempt("reports", report);
      if (typeof answer === "object") {
        const status = answer.status as "succeeded" | "failed";
        witness.sightings.push({ of: "report", task: taskId, claim: claimId, status, isPermanent });
      }
      if (answer !== "lost") return;
      await this.#rest(100);
    }
  }
}

const deadline = () => ({ deadline: Date.now() + callMs });
