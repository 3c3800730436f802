/** When a load process sends, and what it counts: requests that begin after the ramp and are answered before the end. */
export interface Pace {
  readonly rampMs: number;
  readonly measureMs: number;
}

/** What a machine identity logs in with. */
export interface Credentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Requests over HTTP/1.1 with keep-alive, taken in turn. */
export interface HttpJob extends Pace {
  readonly kind: "http";
  readonly port: number;
  readonly connections: number;
  /** Whole requests; `uniquePlace` in one is replaced, so that no two are the same. */
  readonly requests: readonly string[];
  readonly unique: string;
  readonly expectedStatus: number;
}

/** Calls of GetSecret over gRPC. */
export interface GrpcJob extends Pace {
  readonly kind: "grpc";
  readonly port: number;
  readonly inFlight: number;
  readonly channels: number;
  readonly token: string;
  readonly ids: readonly string[];
}

/** Logins with a password, of which each is one request to begin it and one to end it. */
export interface SrpJob extends Pace {
  readonly kind: "srp";
  readonly port: number;
  readonly connections: number;
  /** At least as many as connections: each logs in users of its own, in turn. */
  readonly usernames: readonly string[];
}

/** Agents that connect in the ramp of their first job, stay connected, and keep the usual pace while it measures. */
export interface FleetJob extends Pace {
  readonly kind: "fleet";
  readonly port: number;
  readonly agents: readonly Credentials[];
  /** On each host. */
  readonly keytabs: number;
  readonly heartbeatMs: number;
  readonly reportMs: number;
}

/** A gateway, what it logs in with, and the place that it registers for. */
export interface GatewayAccount extends Credentials {
  readonly name: string;
  readonly environment: string;
  readonly role: "primary" | "dr-standby";
}

/** Heartbeats of gateways that connect in their first job, as fast as they are answered. */
export interface HeartbeatJob extends Pace {
  readonly kind: "heartbeats";
  readonly port: number;
  readonly gateways: readonly GatewayAccount[];
  /** How many of them beat at a time. */
  readonly inFlight: number;
}

/** Tasks of one gateway, so many claimed and completed at a time. */
export interface TaskJob extends Pace {
  readonly kind: "tasks";
  readonly port: number;
  readonly gateway: GatewayAccount;
  readonly inFlight: number;
}

/** Gateways that connect in the ramp of their first job, stay connected, and beat at the usual pace while it measures. */
export interface GatewayFleetJob extends Pace {
  readonly kind: "gateway-fleet";
  readonly port: number;
  readonly gateways: readonly GatewayAccount[];
  readonly heartbeatMs: number;
}

/** What a server does, as bare statements over as many connections as it has, and requests to these ports. */
export interface StatementJob extends Pace {
  readonly kind: "statements";
  readonly databaseUrl: string;
  readonly work: "heartbeat" | "task" | "rotation" | "toldRotation" | "sync";
  readonly ports: readonly number[];
  readonly inFlight: number;
}

export type Job = HttpJob | GrpcJob | SrpJob | FleetJob | HeartbeatJob | TaskJob | GatewayFleetJob | StatementJob;

/** What a load process saw. */
export interface Seen {
  /** Milliseconds, of those that count. */
  readonly latencies: Float64Array;
  /** All answers of the expected kind, counted or not. */
  readonly answered: number;
}

/** What those saw who keep streams open; the latencies are of heartbeats, from the moment that each was due. */
export interface StreamsSeen extends Seen {
  /** That ended. */
  readonly lostStreams: number;
}

/** What a fleet of agents saw. */
export interface FleetSeen extends StreamsSeen {
  readonly reports: Float64Array;
}

export type Reply = { readonly seen: Seen } | { readonly broken: string };

/** Stands in a request for characters of the same number that make it unique. */
export const uniquePlace = "{unique-key-0000}";

/** The clock of a job: each request asks it whether to begin, and tells it when it was answered. */
export class Stopwatch {
  readonly #from: number;
  readonly #until: number;
  readonly #latencies: number[] = [];
  #answered = 0;

  constructor({ rampMs, measureMs }: Pace) {
    this.#from = performance.now() + rampMs;
    this.#until = this.#from + measureMs;
  }

  get running(): boolean {
    return performance.now() < this.#until;
  }

  /** Whether there is time for another. */
  answered(beganAt: number): boolean {
    const now = performance.now();
    this.#answered += 1;
    if (beganAt >= this.#from && now < this.#until) this.#latencies.push(now - beganAt);
    return now < this.#until;
  }

  get seen(): Seen {
    return { latencies: Float64Array.from(this.#latencies), answered: this.#answered };
  }
}

/** Each process serves one kind of job. */
type Run =
  | ((job: HttpJob) => Promise<Seen>)
  | ((job: GrpcJob) => Promise<Seen>)
  | ((job: SrpJob) => Promise<Seen>)
  | ((job: FleetJob) => Promise<FleetSeen>)
  | ((job: HeartbeatJob) => Promise<Seen>)
  | ((job: TaskJob) => Promise<Seen>)
  | ((job: GatewayFleetJob) => Promise<StreamsSeen>)
  | ((job: StatementJob) => Promise<Seen>);

/** Runs the jobs that the parent process sends, and ends with it. */
export function serveJobs(run: Run): void {
  process.on("disconnect", () => process.exit(0));
  process.on("message", (job) => {
    run(job as never).then(
      (seen) => process.send?.({ seen } satisfies Reply),
      (error: Error) => process.send?.({ broken: error.message } satisfies Reply),
    );
  });
}
