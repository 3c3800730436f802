import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import pg from "pg";
import { startValkey, type ValkeyEngine } from "../../src/engines/engines.ts";
import { readConfig } from "../../src/server/config.ts";
import { createLogger } from "../../src/server/logging.ts";
import { readMasterKey } from "../../src/server/seal/master-key.ts";
import { type Part, type Server, startServer } from "../../src/server/server.ts";
import { Client } from "./client.ts";
import { cloneDatabase, dropDatabase } from "./databases.ts";
import { enroll, loginAs } from "./person.ts";

/** Roles of an identity for a test: at the organization, and at projects. */
export interface Roles {
  readonly roles?: readonly string[];
  readonly projectRoles?: readonly { readonly project_id: string; readonly role: string }[];
  readonly rateLimitPerMinute?: number;
  readonly allowedIps?: readonly string[];
}

/** A whole server on a database of its own and a Valkey of its own, in this process. */
export class TestServer {
  /** Settings without the prefix SERVICE_; limits are off unless a test sets them. */
  readonly settings: Record<string, string>;
  databaseUrl = "";
  valkey!: ValkeyEngine;
  server!: Server;
  /** The administrator made at the first start. */
  admin!: Client;
  /** The project made at the first start. */
  projectId = "";
  clientId = "";
  clientSecret = "";
  /** Everything that was logged, at level trace unless the settings say otherwise. */
  log = "";
  readonly #masterKey = randomBytes(32).toString("base64");
  readonly #clientSecret = `hfcs_${randomBytes(24).toString("base64url")}`;
  #folder = "";
  readonly #replicas: Server[] = [];
  readonly #endings: (() => void)[] = [];

  constructor(settings: Record<string, string>) {
    this.settings = settings;
  }

  async start(): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    [this.databaseUrl, this.valkey] = await Promise.all([cloneDatabase(), startValkey(this.#folder)]);
    this.server = await this.startReplica();
    const { bootstrapped } = this.server;
    this.projectId = bootstrapped?.projectId ?? "";
    this.clientId = bootstrapped?.clientId ?? "";
    this.clientSecret = this.#clientSecret;
    this.admin = await this.login(this.clientId, this.clientSecret);
  }

  /** The environment of a server on these engines, for tests that start it as a process of its own. */
  environment(): Record<string, string> {
    const settings = {
      PORT: "0",
      OCSP_PORT: "0",
      DATABASE_URL: this.databaseUrl,
      REDIS_URL: this.valkey.url,
      MASTER_KEY: this.#masterKey,
      RATE_LIMIT_API: "0",
      RATE_LIMIT_AUTH: "0",
      OUTBOUND_ALLOWED_CIDRS: "127.0.0.0/8,::1/128",
      LOG_LEVEL: "trace",
      BOOTSTRAP_CLIENT_SECRET: this.#clientSecret,
      BOOTSTRAP_ADMIN_PASSWORD: usualPassword,
      ...this.settings,
    };
    return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]));
  }

  /** One more replica on the same engines. */
  async startReplica(settings: Record<string, string> = {}, parts: readonly Part[] = ["api", "ocsp"]): Promise<Server> {
    const given = Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]);
    const config = readConfig({ ...this.environment(), ...Object.fromEntries(given) });
    const sink = new Writable({
      write: (chunk: Buffer, _, done) => {
        this.log += chunk.toString();
        done();
      },
    });
    const replica = await startServer({
      config,
      logger: createLogger(config.LOG_LEVEL, sink),
      databaseUrl: this.databaseUrl,
      redisUrls: config.REDIS_URL ?? [],
      masterKey: readMasterKey(config, false),
      parts: new Set(parts),
    });
    this.#replicas.push(replica);
    return replica;
  }

  get url(): string {
    return urlOf(this.server);
  }

  /** Nobody in particular. */
  get anonymous(): Client {
    return new Client(this.url, undefined);
  }

  async login(clientId: string, clientSecret: string, url = this.url): Promise<Client> {
    const answer = await new Client(url, undefined).rest("POST", "/api/v1/auth/universal-auth/login", {
      client_id: clientId,
      client_secret: clientSecret,
    });
    if (answer.status !== 200) throw new Error(`login failed: ${JSON.stringify(answer.body)}`);
    const token: string = answer.body.access_token;
    const { sub } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
    return new Client(url, token, sub);
  }

  /** A new identity with these roles, logged in; a list of names means roles at the organization. */
  async as(name: string, given: readonly string[] | Roles, by: Client = this.admin): Promise<Client> {
    const {
      roles = [],
      projectRoles = [],
      rateLimitPerMinute,
      allowedIps = [],
    } = (Array.isArray(given) ? { roles: given } : given) as Roles;
    const created = await by.rest("POST", "/api/v1/machine-identities", {
      name,
      roles,
      project_roles: projectRoles,
      rate_limit_per_minute: rateLimitPerMinute ?? null,
      allowed_ips: allowedIps,
    });
    if (created.status !== 201) throw new Error(`no identity ${name}: ${JSON.stringify(created.body)}`);
    const path = `/api/v1/machine-identities/${created.body.id}/client-secrets`;
    const { body: secret } = await by.rest("POST", path, {});
    return this.login(created.body.client_id, secret.client_secret);
  }

  /** A new user with these fields, enrolled and logged in with the usual password. */
  async user(username: string, fields: Record<string, unknown> = {}, by: Client = this.admin): Promise<Client> {
    const { status, body } = await by.rest("POST", "/api/v1/users", { username, ...fields });
    if (status !== 201) throw new Error(`no user ${username}: ${JSON.stringify(body)}`);
    await enroll(this.anonymous, username, body.enrollment_token, usualPassword);
    return loginAs(this.anonymous, username, usualPassword);
  }

  /** An administrator of another organization, and a project of that organization. */
  async otherOrganization(
    name = `other-${randomBytes(4).toString("hex")}`,
  ): Promise<{ admin: Client; login: () => Promise<Client>; projectId: string; organizationId: string }> {
    const { body } = await this.admin.rest("POST", "/api/v1/organizations", { name });
    const login = () => this.login(body.administrator.client_id, body.administrator.client_secret);
    const admin = await login();
    const { body: project } = await admin.rest("POST", "/api/v1/projects", { name: "theirs" });
    return { admin, login, projectId: project.id, organizationId: body.id };
  }

  /** Creates a secret as the administrator and answers its record. */
  async secret(fields: Record<string, unknown> = {}, by: Client = this.admin) {
    const key = `key-${randomBytes(6).toString("hex")}`;
    const { status, body } = await by.rest("POST", "/api/v1/secrets", {
      key,
      value: "v1",
      project_id: this.projectId,
      ...fields,
    });
    if (status !== 201) throw new Error(`no secret: ${JSON.stringify(body)}`);
    return body;
  }

  /** One line per audit event of the first organization, oldest first: who, what, outcome. */
  async auditTrail(): Promise<string[]> {
    const rows = await this.sql(
      "select coalesce(actor_name, actor_type) as who, action, outcome from audit_event order by occurred_at, id",
    );
    return rows.map(({ who, action, outcome }) => `${who} ${action} ${outcome}`);
  }

  // oxlint-disable-next-line typescript/no-explicit-any
  async sql(text: string, values: unknown[] = []): Promise<any[]> {
    const client = new pg.Client(this.databaseUrl);
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Runs before the server stops: for what would keep talking to it. */
  beforeStop(end: () => void): void {
    this.#endings.push(end);
  }

  async stop(): Promise<void> {
    for (const end of this.#endings) end();
    await Promise.all(this.#replicas.map((replica) => replica.stop(500)));
    await this.valkey?.stop();
    if (this.databaseUrl !== "") await dropDatabase(this.databaseUrl);
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** The password of the users that tests make. */
export const usualPassword = "correct horse battery";

/** Where a server's API listens. */
export const urlOf = ({ address }: Server) => `http://127.0.0.1:${address?.port}`;

/** A server for the tests of the surrounding `describe` or file: started before them, stopped after. */
export function useServer(settings: Record<string, string> = {}): TestServer {
  const server = new TestServer(settings);
  before(async function () {
    this.timeout(30_000);
    await server.start();
  });
  after(() => server.stop());
  return server;
}
