import { randomBytes } from "node:crypto";
import { chownSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { postgresAccount } from "../../src/engines/postgres-account.ts";
import { postgresBinaries } from "../../src/engines/postgres-binaries.ts";
import { type Cluster, findOrCreateCluster } from "../../src/engines/postgres-cluster.ts";
import { openServerLog, type ServerLog } from "../../src/engines/postgres-log.ts";
import { makePrivateFolder } from "../../src/engines/private-folder.ts";
import { spawnWatched, type WatchedProcess } from "../../src/engines/watched-process.ts";
import { eventually } from "./program.ts";

/** A certificate and its key, as files. */
interface KeyPair {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Whoever comes says a password; but roles whose name begins with "trusted", and with "clear" in the clear. */
const hostBasedAccess = `
host all /^trusted 127.0.0.1/32 trust
host all /^clear 127.0.0.1/32 password
host all all 127.0.0.1/32 scram-sha-256
`;

/** A PostgreSQL of its own, as somebody has whose passwords are rotated: on 127.0.0.1, and everybody has a password. */
export class PostgresTarget {
  readonly host = "127.0.0.1";
  readonly port: number;
  /** The superuser's, whose name is `service`. */
  readonly superuserPassword: string;
  readonly #folder: string;
  readonly #data: string;
  readonly #log: ServerLog;
  readonly #start: () => WatchedProcess;
  #process: WatchedProcess;

  private constructor(
    folder: string,
    { data, password }: Cluster,
    port: number,
    log: ServerLog,
    start: () => WatchedProcess,
  ) {
    this.#folder = folder;
    this.#data = data;
    this.superuserPassword = password;
    this.port = port;
    this.#log = log;
    this.#start = start;
    this.#process = start();
  }

  static async start(): Promise<PostgresTarget> {
    const temporary = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    const account = postgresAccount(temporary);
    const home = makePrivateFolder(temporary, account);
    const log = openServerLog(home);
    const binaries = await postgresBinaries(home, account);
    const cluster = await findOrCreateCluster(home, binaries, log, account);
    writeFileSync(join(cluster.data, "pg_hba.conf"), hostBasedAccess);
    const port = await freePort();
    const settings = ["fsync=off", "shared_buffers=16MB", "log_statement=all", "unix_socket_directories="];
    const args = [
      "-D",
      cluster.data,
      "-h",
      "127.0.0.1",
      "-p",
      `${port}`,
      ...settings.flatMap((setting) => ["-c", setting]),
    ];
    const start = () => spawnWatched(binaries.postgres, args, log.fd, account);
    const target = new PostgresTarget(home, cluster, port, log, start);
    await target.#ready();
    return target;
  }

  /** Runs a statement as the superuser. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async sql(text: string, values: unknown[] = []): Promise<any[]> {
    const client = this.#client("service", this.superuserPassword);
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Makes a role that may log in. */
  async createRole(name: string, password: string): Promise<void> {
    await this.sql(`create role ${pg.escapeIdentifier(name)} login password ${pg.escapeLiteral(password)}`);
  }

  async canLogIn(user: string, password: string): Promise<boolean> {
    const client = this.#client(user, password);
    try {
      await client.connect();
      return true;
    } catch (error) {
      if ((error as pg.DatabaseError).code?.startsWith("28") === true) return false;
      throw error;
    } finally {
      await client.end();
    }
  }

  /** Serves TLS with this certificate from the next connection on. */
  async serveTls({ certFile, keyFile }: KeyPair): Promise<void> {
    const account = postgresAccount(this.#folder);
    // In files of their own, since the server reads them again some time after it was told to.
    const name = randomBytes(4).toString("hex");
    for (const [from, to] of [
      [certFile, join(this.#data, `${name}.crt`)],
      [keyFile, join(this.#data, `${name}.key`)],
    ] as const) {
      writeFileSync(to, readFileSync(from), { mode: 0o600 });
      if (account) chownSync(to, account.uid, account.gid);
    }
    await this.sql(`alter system set ssl_cert_file = '${name}.crt'`);
    await this.sql(`alter system set ssl_key_file = '${name}.key'`);
    await this.sql("alter system set ssl = on");
    await this.sql("select pg_reload_conf()");
    await eventually("the certificate is served", async () => {
      const [{ file }] = await this.sql("select current_setting('ssl_cert_file') as file");
      return file === `${name}.crt` ? true : undefined;
    });
  }

  /** All that the server has logged, with every statement. */
  log(): string {
    return this.#log.since(0);
  }

  /** Is down until `up`: connections end, and new ones are refused. */
  async down(): Promise<void> {
    this.#process.kill("SIGINT");
    await this.#process.ended;
  }

  async up(): Promise<void> {
    this.#process = this.#start();
    await this.#ready();
  }

  async stop(): Promise<void> {
    await this.down();
    this.#log.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #ready(): Promise<void> {
    await eventually("PostgreSQL answers", () => this.sql("select 1").catch(() => undefined));
  }

  #client(user: string, password: string): pg.Client {
    const client = new pg.Client({ host: this.host, port: this.port, database: "postgres", user, password });
    return client.on("error", () => {});
  }
}

/** A port that nobody listened on a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
