import { randomUUID } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresEngine, startPostgres, startValkey, type ValkeyEngine } from "../../../src/engines/engines.ts";
import { TestServer } from "../../harness/server.ts";
import { Replica } from "./replica.ts";

const replicas = 3;
const lockNodes = 3;

/** A server of three replicas, each a process, on a PostgreSQL of its own that tells when what was committed, and three Valkeys. */
export class ReplicatedServer extends TestServer {
  readonly replicas: Replica[] = [];
  postgres!: PostgresEngine;
  /** Of the locks; the first one has the rest too. */
  readonly nodes: ValkeyEngine[] = [];
  #home = "";

  override async start(): Promise<void> {
    this.#home = await mkdtemp(join(tmpdir(), "holdfast-failover-"));
    // PostgreSQL, which root runs as another user, has to pass.
    await chmod(this.#home, 0o711);
    await this.startPostgres();
    for (let index = 0; index < lockNodes; index += 1) await this.startNode(index);
    this.valkey = this.nodes[0] as ValkeyEngine;
    this.databaseUrl = this.postgres.url;
    this.clientId = randomUUID();
    this.projectId = randomUUID();
    Object.assign(this.settings, {
      REDIS_URL: this.nodes.map(({ url }) => url).join(","),
      BOOTSTRAP_CLIENT_ID: this.clientId,
      BOOTSTRAP_PROJECT_ID: this.projectId,
    });
    const environment = this.environment();
    this.clientSecret = environment["SERVICE_BOOTSTRAP_CLIENT_SECRET"] ?? "";
    for (let index = 0; index < replicas; index += 1) this.replicas.push(await Replica.start(environment));
    this.admin = await this.login(this.clientId, this.clientSecret);
  }

  /** That of the first replica. */
  override get url(): string {
    return this.replicas[0]?.url ?? "";
  }

  get urls(): string[] {
    return this.replicas.map(({ url }) => url);
  }

  /** Starts PostgreSQL, again on the same data and at the same URL. */
  async startPostgres(): Promise<void> {
    const settings = { track_commit_timestamp: "on", max_connections: "200" };
    this.postgres = await startPostgres(join(this.#home, "postgres"), { settings, warn: () => {} });
  }

  /** Starts a Valkey, again at the same URL; it keeps nothing. */
  async startNode(index: number): Promise<void> {
    this.nodes[index] = await startValkey(join(this.#home, `valkey-${index}`), { warn: () => {} });
  }

  override async stop(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.stop()));
    // The database goes with its server, so there is none to drop.
    this.databaseUrl = "";
    await super.stop();
    await Promise.all(this.nodes.map((node) => node.stop()));
    await this.postgres?.stop();
    if (this.#home !== "") await rm(this.#home, { recursive: true, force: true });
  }
}
