/** When a load process sends, and what it counts: requests that begin after the ramp and are answered before the end. */
export interface Pace {
  readonly rampMs: number;
  readonly measureMs: number;
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

export type Job = HttpJob | GrpcJob | SrpJob;

/** What a load process saw. */
export interface Seen {
  /** Milliseconds, of those that count. */
  readonly latencies: Float64Array;
  /** All answers of the expected kind, counted or not. */
  readonly answered: number;
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
type Run = ((job: HttpJob) => Promise<Seen>) | ((job: GrpcJob) => Promise<Seen>) | ((job: SrpJob) => Promise<Seen>);

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
