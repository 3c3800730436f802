import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { type Engines, startEngines } from "../../src/engines/engines.ts";
import { Api } from "./api.ts";
import { createFloorTables } from "./floor-tables.ts";
import {
  type LoadFile,
  type LoadProcess,
  type ServerProcess,
  startFloor,
  startHoldfast,
  startLoad,
  startWatchedHoldfast,
  type WatchedProcess,
} from "./processes.ts";

/** A server, and how to get at what it holds. */
export interface Holdfast extends ServerProcess {
  /** As the administrator. */
  readonly api: Api;
  readonly database: pg.Client;
  readonly databaseUrl: string;
}

/** Two servers on one database. */
export type Replicas = readonly [Holdfast, Holdfast];

/** All that a run starts, and its end. */
export class Stage {
  readonly folder: string;
  /** Of the administrator of every server. */
  readonly #credentials = { clientId: "bench", clientSecret: randomBytes(24).toString("base64url") };
  readonly #ends: (() => Promise<void> | void)[] = [];
  #engines: Engines | undefined;
  #main: Holdfast | undefined;
  #http: LoadProcess | undefined;

  constructor() {
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-bench-")));
    chmodSync(this.folder, 0o755); // PostgreSQL has to pass, as another user when this one is root.
    this.#ends.push(() => rmSync(this.folder, { recursive: true, force: true, maxRetries: 10 }));
  }

  /** The server that most parts measure, and beside it in its database the tables of the floors. */
  async main(nodeOptions: readonly string[] = []): Promise<Holdfast> {
    if (this.#main === undefined) {
      this.#main = await this.holdfast("holdfast", nodeOptions);
      await createFloorTables(this.#main.database);
    }
    return this.#main;
  }

  /** A server on a database of its own, with limits off. */
  async holdfast(databaseName: string, nodeOptions: readonly string[] = []): Promise<Holdfast> {
    return this.#serve(await this.settings(databaseName), (settings) => startHoldfast(settings, nodeOptions));
  }

  /** The same, and it tells how late its event loop is. */
  async watchedHoldfast(databaseName: string): Promise<Holdfast & WatchedProcess> {
    return this.#serve(await this.settings(databaseName), startWatchedHoldfast);
  }

  /** Two servers that may call this machine, and beside their tables those of the floors. */
  async replicas(databaseName: string): Promise<Replicas> {
    const settings = { ...(await this.settings(databaseName)), OUTBOUND_ALLOWED_CIDRS: "127.0.0.0/8" };
    const first = await this.#serve(settings, startHoldfast);
    const second = await this.#serve(settings, startHoldfast);
    await createFloorTables(first.database);
    return [first, second];
  }

  async #serve<Server extends ServerProcess>(
    settings: Record<string, string>,
    start: (settings: Record<string, string>) => Promise<Server>,
  ): Promise<Holdfast & Server> {
    const { clientId, clientSecret } = this.#credentials;
    const server = await start({
      ...settings,
      BOOTSTRAP_CLIENT_ID: clientId,
      BOOTSTRAP_CLIENT_SECRET: clientSecret,
    });
    this.endsWith(() => server.stop());
    const databaseUrl = settings["DATABASE_URL"] ?? "";
    const database = new pg.Client(databaseUrl);
    database.on("error", () => {});
    await database.connect();
    this.endsWith(() => database.end());
    return { ...server, database, databaseUrl, api: await Api.login(server.port, this.#credentials) };
  }

  /** The settings, without SERVICE_, of a server on a database of its own, with limits off. */
  async settings(databaseName: string): Promise<Record<string, string>> {
    const { databaseUrl, redisUrl } = await this.#startEngines();
    const url = databaseUrl.replace(/\/holdfast$/, `/${databaseName}`);
    if (url !== databaseUrl) await query(databaseUrl, `create database ${databaseName}`);
    return {
      DATABASE_URL: url,
      REDIS_URL: redisUrl,
      MASTER_KEY: randomBytes(32).toString("base64"),
      KEYTAB_ENABLED: "true",
      RATE_LIMIT_API: "0",
      RATE_LIMIT_AUTH: "0",
      RATE_LIMIT_AGENT: "0",
      RATE_LIMIT_OCSP: "0",
    };
  }

  /** A superuser's connection to the database of a server. */
  async superuser(databaseName: string): Promise<pg.Client> {
    const { superuserUrl } = await this.#startEngines();
    const client = new pg.Client(superuserUrl.replace(/\/holdfast$/, `/${databaseName}`));
    await client.connect();
    this.endsWith(() => client.end());
    return client;
  }

  async floor(kind: string): Promise<ServerProcess> {
    const { databaseUrl } = await this.#startEngines();
    const floor = await startFloor(kind, databaseUrl);
    this.endsWith(() => floor.stop());
    return floor;
  }

  /** The one process that sends HTTP requests. */
  http(): LoadProcess {
    this.#http ??= this.load("http-load.ts");
    return this.#http;
  }

  load(file: LoadFile): LoadProcess {
    const load = startLoad(file);
    this.endsWith(() => load.stop());
    return load;
  }

  /** Ends with the stage, the last first. */
  endsWith(end: () => Promise<void> | void): void {
    this.#ends.push(end);
  }

  async close(): Promise<void> {
    for (let end = this.#ends.pop(); end !== undefined; end = this.#ends.pop()) {
      try {
        await end();
      } catch (error) {
        console.error(error);
      }
    }
  }

  async #startEngines(): Promise<Engines> {
    if (this.#engines === undefined) {
      const engines = await startEngines(join(this.folder, "engines"), { settings: { max_connections: "200" } });
      this.#engines = engines;
      this.endsWith(() => engines.stop());
    }
    return this.#engines;
  }
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}
