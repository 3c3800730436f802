import { uniquePlace } from "./load.ts";
import type { LoadProcess } from "./processes.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { get, httpSubject, post, type Subject } from "./subjects.ts";
import { atLeast, type Target } from "./table.ts";

const secretsInProject = 1000;
const identities = 16;
const grpcProcesses = 2;
const channelsPerProcess = 4;

/** One kind of request, and what it is held against. */
export interface Scenario {
  readonly name: string;
  readonly ours: Subject;
  readonly against: readonly {
    readonly subject: Subject;
    /** For the ratio at the most connections. */
    readonly target?: Target;
    /** How many times the p99 of this one ours may be, at 16 connections. */
    readonly p99AtMost?: number;
    /** Whether to tell also what the server itself needs for this one in relation to ours: its client costs another amount. */
    readonly serverTime?: true;
  }[];
}

/** Makes the scenarios of a run, all on one server. */
export class Scenarios {
  readonly #stage: Stage;
  readonly #main: Holdfast;
  readonly #http: LoadProcess;
  readonly #projectId: string;
  readonly #ids: readonly string[];
  /** Values that were read and answered. */
  reads = 0;

  private constructor(stage: Stage, main: Holdfast, http: LoadProcess, projectId: string, ids: readonly string[]) {
    this.#stage = stage;
    this.#main = main;
    this.#http = http;
    this.#projectId = projectId;
    this.#ids = ids;
  }

  static async open(stage: Stage, main: Holdfast): Promise<Scenarios> {
    const projectId = await main.api.project("bench");
    const ids = await main.api.secrets(projectId, secretsInProject);
    return new Scenarios(stage, main, stage.http(), projectId, ids);
  }

  async read(): Promise<Scenario> {
    return {
      name: "read a value, REST",
      ours: this.#restRead(),
      against: [
        { subject: await this.#floor("F1") },
        { subject: await this.#floor("F2"), target: atLeast(0.5) },
        { subject: await this.#floor("F3"), target: atLeast(1), p99AtMost: 3 },
      ],
    };
  }

  grpc(): Scenario {
    const loads = Array.from({ length: grpcProcesses }, () => this.#stage.load("grpc-load.ts"));
    const { port, pid, api } = this.#main;
    const run: Subject["run"] = async (connections, pace) => {
      const used = loads.slice(0, connections);
      const job = { kind: "grpc", port, token: api.token, ids: this.#ids, ...pace } as const;
      const share = Math.floor(connections / used.length);
      const jobs = used.map((load) =>
        load.run({ ...job, inFlight: share, channels: Math.min(share, channelsPerProcess) }),
      );
      const seen = await Promise.all(jobs);
      for (const { answered } of seen) this.reads += answered;
      return seen;
    };
    const target = atLeast(0.6);
    return {
      name: "read a value, gRPC",
      ours: { name: "gRPC", pid, loadPids: loads.map((load) => load.pid), run },
      against: [{ subject: this.#restRead(), target, serverTime: true }],
    };
  }

  async list(): Promise<Scenario> {
    const path = `/api/v1/secrets?project_id=${this.#projectId}&per_page=100`;
    const requests = [get(path, this.#main.api.token)];
    return {
      name: "list 100",
      ours: this.#ours({ requests, expectedStatus: 200 }),
      against: [{ subject: await this.#floor("F4"), target: atLeast(0.5) }],
    };
  }

  async create(): Promise<Scenario> {
    const { api } = this.#main;
    const projectId = await api.project("bench create");
    const body = { project_id: projectId, key: uniquePlace, value: "a value that nobody has read" };
    const requests = [post("/api/v1/secrets", body, api.token)];
    const floor = await this.#floor("F5", requests);
    return {
      name: "create",
      ours: this.#ours({ requests, expectedStatus: 201 }),
      against: [{ subject: floor, target: atLeast(0.5) }],
    };
  }

  async login(): Promise<Scenario> {
    const credentials = await this.#main.api.identities(identities);
    const requests = credentials.map(({ clientId, clientSecret }) =>
      post("/api/v1/auth/universal-auth/login", { client_id: clientId, client_secret: clientSecret }),
    );
    return {
      name: "login",
      ours: this.#ours({ requests, expectedStatus: 200 }),
      against: [{ subject: await this.#floor("F3") }, { subject: await this.#floor("F5", requests) }],
    };
  }

  /** How many reads of values are in the audit log. */
  async recordedReads(): Promise<number> {
    const { rows } = await this.#main.database.query<{ count: number }>(
      "select count(*)::int as count from audit_event where action = 'secret.read_value' and outcome = 'success'",
    );
    return rows[0]?.count ?? 0;
  }

  #restRead(): Subject {
    const requests = this.#ids.map((id) => get(`/api/v1/secrets/${id}`, this.#main.api.token));
    const onAnswered = (count: number) => {
      this.reads += count;
    };
    return this.#ours({ requests, expectedStatus: 200, onAnswered });
  }

  #ours(load: Parameters<typeof httpSubject>[3]): Subject {
    return httpSubject("REST", this.#main, this.#http, load);
  }

  async #floor(kind: string, requests: readonly string[] = [get("/")]): Promise<Subject> {
    return httpSubject(kind, await this.#stage.floor(kind), this.#http, { requests, expectedStatus: 200 });
  }
}
