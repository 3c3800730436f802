import { randomBytes } from "node:crypto";
import { closeSync, copyFileSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import mysql from "mysql2/promise";
import { spawnWatched, type WatchedProcess } from "../../src/engines/watched-process.ts";
import { freePort } from "./postgres-target.ts";
import { eventually } from "./program.ts";

const program = "/usr/sbin/mariadbd";
const installer = "/usr/bin/mariadb-install-db";

/** A certificate and its key, as files. */
interface KeyPair {
  readonly certFile: string;
  readonly keyFile: string;
}

interface Options {
  /** What TLS is served with; none is offered without. */
  readonly tls?: KeyPair;
}

/** The machine's own MariaDB, on 127.0.0.1, as somebody has whose passwords are rotated. */
export class MariaDb {
  readonly host = "127.0.0.1";
  readonly port: number;
  /** Of the user `service`, who may do everything. */
  readonly superuserPassword: string;
  readonly #folder: string;
  readonly #process: WatchedProcess;

  private constructor(folder: string, port: number, password: string, process: WatchedProcess) {
    this.#folder = folder;
    this.port = port;
    this.superuserPassword = password;
    this.#process = process;
  }

  /** Why tests with it are left out; undefined where it is there. */
  static get missing(): string | undefined {
    return existsSync(program) && existsSync(installer) ? undefined : `this machine has no ${program}`;
  }

  static async start({ tls }: Options = {}): Promise<MariaDb> {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    const at = (name: string) => join(folder, name);
    const everywhere = ["--no-defaults", `--user=${userInfo().username}`, `--datadir=${at("data")}`];
    const log = openSync(at("mariadb.log"), "a");
    try {
      const making = [...everywhere, "--auth-root-authentication-method=normal", "--skip-test-db"];
      const how = await spawnWatched(installer, making, log).ended;
      if (how !== "exit code 0") throw new Error(`${how}: ${readFileSync(at("mariadb.log"), "utf8")}`);

      const [port, password] = [await freePort(), randomBytes(16).toString("hex")];
      writeFileSync(at("first.sql"), firstStatements(password));
      if (tls !== undefined) copyKeyPair(tls, folder);
      const files = [`--socket=${at("socket")}`, `--pid-file=${at("pid")}`, `--init-file=${at("first.sql")}`];
      const network = [`--port=${port}`, "--bind-address=127.0.0.1", "--skip-name-resolve"];
      const logging = ["--general-log", `--general-log-file=${at("general.log")}`];
      const encryption = tls === undefined ? [] : [`--ssl-cert=${at("cert.pem")}`, `--ssl-key=${at("key.pem")}`];
      const small = ["--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M"];
      const args = [...everywhere, ...files, ...network, ...logging, ...encryption, ...small];
      const target = new MariaDb(folder, port, password, spawnWatched(program, args, log));
      await eventually("MariaDB answers", () => target.sql("select 1").catch(() => undefined));
      return target;
    } finally {
      closeSync(log);
    }
  }

  /** Runs a statement as the user who may do everything. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async sql(text: string, values: string[] = []): Promise<any> {
    const connection = await this.#connect("service", this.superuserPassword);
    try {
      return (await connection.query(text, values))[0];
    } finally {
      await connection.end();
    }
  }

  /** Makes a user who may log in from everywhere. */
  async createUser(name: string, password: string): Promise<void> {
    await this.sql("create user ?@'%' identified by ?", [name, password]);
  }

  async canLogIn(user: string, password: string): Promise<boolean> {
    try {
      const connection = await this.#connect(user, password);
      await connection.end();
      return true;
    } catch (error) {
      if ((error as { code?: string }).code === "ER_ACCESS_DENIED_ERROR") return false;
      throw error;
    }
  }

  /** Serves TLS with another certificate, if it was started with one. */
  async serveTls(tls: KeyPair): Promise<void> {
    copyKeyPair(tls, this.#folder);
    await this.sql("flush ssl");
  }

  /** Every statement that the server has logged. */
  log(): string {
    return readFileSync(join(this.#folder, "general.log"), "utf8");
  }

  async stop(): Promise<void> {
    this.#process.kill("SIGTERM");
    await this.#process.ended;
    await rm(this.#folder, { recursive: true, force: true });
  }

  #connect(user: string, password: string) {
    return mysql.createConnection({ host: this.host, port: this.port, user, password });
  }
}

const firstStatements = (password: string) => `
create or replace user service@'%' identified by '${password}';
grant all on *.* to service@'%' with grant option;
`;

function copyKeyPair({ certFile, keyFile }: KeyPair, folder: string): void {
  copyFileSync(certFile, join(folder, "cert.pem"));
  copyFileSync(keyFile, join(folder, "key.pem"));
}
