import { randomBytes } from "node:crypto";
import { MariaDb } from "../../harness/mariadb.ts";
import { PostgresTarget } from "../../harness/postgres-target.ts";
import { type Received, Receiver } from "../../harness/receiver.ts";
import { answers, type Trouble } from "../../harness/trouble.ts";
import { Wire } from "./wire.ts";

/** A login of its own somewhere, that a secret holds. */
export interface Target {
  /** What a rotation configuration says of it. */
  readonly config: {
    readonly provider: string;
    readonly provider_settings: Record<string, unknown>;
    readonly credentials?: Record<string, unknown>;
  };
  /** What the secret holds at first. */
  readonly value: string;
  /** The way to it, where that is one that can be cut. */
  readonly wire: Wire | undefined;
  /** Whether a value of the secret is good for logging in. */
  accepts(value: string): Promise<boolean>;
}

/** Makes targets of a kind, each with a login of its own. */
export type MakeTarget = () => Promise<Target>;

interface TargetsOptions {
  /** Each target is reached by a wire of its own. */
  readonly isWired: boolean;
}

/** The servers of all kinds of targets. */
export class Targets {
  /** Of those kinds that this machine has. */
  readonly kinds: Readonly<Record<string, MakeTarget>>;
  readonly #receiver: Receiver;
  readonly #postgres: PostgresTarget;
  readonly #mariadb: MariaDb | undefined;
  readonly #isWired: boolean;
  /** What is in use behind each path of the webhook. */
  readonly #inUse = new Map<string, string>();
  readonly #wires: Wire[] = [];

  private constructor(
    receiver: Receiver,
    postgres: PostgresTarget,
    mariadb: MariaDb | undefined,
    { isWired }: TargetsOptions,
  ) {
    this.#isWired = isWired;
    this.#receiver = receiver;
    this.#postgres = postgres;
    this.#mariadb = mariadb;
    receiver.behave((request) => this.#beAsked(request));
    this.kinds = {
      "a webhook that is told": () => this.#webhook("push"),
      "a webhook that makes the values": () => this.#webhook("mint"),
      "a role of PostgreSQL that changes its own password": () => this.#role(),
      "a role of PostgreSQL whose password an administrator changes": () => this.#roleByAdmin(),
      "two roles of PostgreSQL that take turns": () => this.#roles(),
      ...(mariadb && {
        "a user of MariaDB who changes its own password": () => this.#user(mariadb),
        "a user of MariaDB whose password an administrator changes": () => this.#userByAdmin(mariadb),
      }),
    };
  }

  static async start(options: TargetsOptions = { isWired: false }): Promise<Targets> {
    const { missing } = MariaDb;
    if (missing !== undefined) console.log(`      left out: targets of MariaDB, as ${missing}`);
    return new Targets(
      await Receiver.start(),
      await PostgresTarget.start(),
      missing === undefined ? await MariaDb.start() : undefined,
      options,
    );
  }

  async stop(): Promise<void> {
    for (const wire of this.#wires) wire.close();
    await Promise.all([this.#receiver.stop(), this.#postgres.stop(), this.#mariadb?.stop()]);
  }

  async #webhook(mode: "push" | "mint"): Promise<Target> {
    const path = `/${mode}/${anything()}`;
    const value = anything();
    this.#inUse.set(path, value);
    const { port, wire } = await this.#reach(this.#receiver.port);
    const url = `http://localhost:${port}${path}`;
    return {
      config: { provider: "webhook", provider_settings: { url, mode } },
      value,
      wire,
      accepts: async (given) => this.#inUse.get(path) === given,
    };
  }

  async #beAsked({ path, body }: Received): Promise<Trouble | undefined> {
    if (body.event === "rotation.verify") return body.value === this.#inUse.get(path) ? undefined : answers(409);
    const value = path.startsWith("/mint/") ? anything() : body.value;
    this.#inUse.set(path, value);
    return answers(200, JSON.stringify({ value }));
  }

  async #role(): Promise<Target> {
    const username = `role_${anything()}`;
    const value = anything();
    await this.#postgres.createRole(username, value);
    const { settings, wire } = await this.#reachPostgres();
    return {
      config: { provider: "postgres_role", provider_settings: { ...settings, username } },
      value,
      wire,
      accepts: (given) => this.#postgres.canLogIn(username, given),
    };
  }

  async #roleByAdmin(): Promise<Target> {
    const target = await this.#role();
    const credentials = { admin_username: "service", admin_password: this.#postgres.superuserPassword };
    return { ...target, config: { ...target.config, credentials } };
  }

  async #roles(): Promise<Target> {
    const roles = [`role_${anything()}`, `role_${anything()}`];
    const passwords = [anything(), anything()];
    const { settings, wire } = await this.#reachPostgres();
    for (const [index, role] of roles.entries()) await this.#postgres.createRole(role, passwords[index] ?? "");
    return {
      config: {
        provider: "postgres_role",
        provider_settings: { ...settings, roles, value_format: "json" },
        credentials: { admin_username: "service", admin_password: this.#postgres.superuserPassword },
      },
      value: JSON.stringify({ username: roles[0], password: passwords[0] }),
      wire,
      accepts: (given) => {
        const { username, password } = JSON.parse(given);
        return this.#postgres.canLogIn(username, password);
      },
    };
  }

  async #reachPostgres() {
    const { port, wire } = await this.#reach(this.#postgres.port);
    return { settings: { host: "127.0.0.1", port, database: "postgres", ssl_mode: "disable" }, wire };
  }

  async #reach(port: number): Promise<{ port: number; wire: Wire | undefined }> {
    if (!this.#isWired) return { port, wire: undefined };
    const wire = await Wire.to(port);
    this.#wires.push(wire);
    return { port: wire.port, wire };
  }

  async #user(mariadb: MariaDb): Promise<Target> {
    const username = `user_${anything()}`;
    const value = anything();
    await mariadb.createUser(username, value);
    const { port, wire } = await this.#reach(mariadb.port);
    // By another name than PostgreSQL has, since there are only so many attempts at a time at one host.
    const host = "localhost";
    return {
      config: { provider: "mysql_user", provider_settings: { host, port, username, ssl_mode: "disable" } },
      value,
      wire,
      accepts: (given) => mariadb.canLogIn(username, given),
    };
  }

  async #userByAdmin(mariadb: MariaDb): Promise<Target> {
    const target = await this.#user(mariadb);
    const credentials = { admin_username: "service", admin_password: mariadb.superuserPassword };
    return { ...target, config: { ...target.config, credentials } };
  }
}

const anything = () => randomBytes(8).toString("hex");
