import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Entry, eventually, Program } from "../harness/program.ts";
import type { TestServer } from "../harness/server.ts";

/** Variables without the prefix SERVICE_. */
export type Settings = Readonly<Record<string, string>>;

/** A rotation of a secret by a gateway, as a test arranges it. */
interface RotationFields {
  readonly driver?: string;
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly credentials?: Readonly<Record<string, unknown>>;
  readonly value?: string;
}

/** The settings of a machine identity. */
export type GatewayIdentity = Readonly<Record<"CLIENT_ID" | "CLIENT_SECRET", string>>;

/** An environment with its gateways as processes, and secrets that they rotate. Each test has one of its own. */
export class GatewayHost {
  readonly folder: string = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-gateway-")));
  readonly environment: string = `environment-${randomBytes(4).toString("hex")}`;
  readonly #server: TestServer;
  readonly #programs: Program[] = [];

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** An identity that may be a gateway. */
  async identity(fields: Readonly<Record<string, unknown>> = {}): Promise<GatewayIdentity> {
    const name = `gateway-${randomBytes(4).toString("hex")}`;
    const { admin } = this.#server;
    const identity = { name, roles: ["gateway"], ...fields };
    const { body: made } = await admin.rest("POST", "/api/v1/machine-identities", identity);
    const { body: secret } = await admin.rest("POST", `/api/v1/machine-identities/${made.id}/client-secrets`, {});
    return { CLIENT_ID: made.client_id, CLIENT_SECRET: secret.client_secret };
  }

  /** Starts a gateway: a primary with an identity of its own, unless told otherwise. */
  async start(settings: Settings = {}): Promise<Program> {
    const identity = "CLIENT_ID" in settings ? {} : await this.identity();
    return this.run({ SERVER_URL: this.#server.url, GATEWAY_ROLE: "primary", ...identity, ...settings });
  }

  /** Starts a gateway and waits until a server serves it. */
  async startConnected(settings: Settings = {}): Promise<Program> {
    const gateway = await this.start(settings);
    await gateway.said("connected");
    return gateway;
  }

  /** Starts a gateway with these settings and those that every one here has. */
  run(settings: Settings): Program {
    const all = { GATEWAY_ENVIRONMENT: this.environment, GATEWAY_PORT: "0", LOG_LEVEL: "debug", ...settings };
    const named = Object.entries(all).map(([name, value]) => [`SERVICE_${name}`, value]);
    const PATH = `${dirname(process.execPath)}:${process.env["PATH"]}`;
    const gateway = new Program("gateway", { PATH, HOME: this.folder, ...Object.fromEntries(named) });
    this.#programs.push(gateway);
    return gateway;
  }

  /** Writes a file here, and answers its path. */
  write(name: string, content: string, mode = 0o600): string {
    const path = join(this.folder, name);
    writeFileSync(path, content, { mode });
    return path;
  }

  /** A file that allows commands, each given as a shell script. */
  commandsFile(scripts: Readonly<Record<string, string>>): string {
    const commands = Object.entries(scripts).map(([name, script]) => {
      const path = this.write(`${name}.sh`, `#!/bin/sh\n${script}\n`, 0o700);
      return [name, { argv: [path, this.folder] }];
    });
    return this.write("commands.json", JSON.stringify(Object.fromEntries(commands)));
  }

  /** What commands have written into a file here, line by line. */
  lines(name: string): string[] {
    const path = join(this.folder, name);
    return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
  }

  /** The lines of a file here, once there are so many. */
  written(name: string, count = 1): Promise<string[]> {
    return eventually(`${count} lines in ${name}`, () => {
      const lines = this.lines(name);
      return lines.length >= count ? lines : undefined;
    });
  }

  /** A secret that the active gateway of the environment rotates. */
  async secret({ driver = "generated_value", settings = {}, credentials, value = "first" }: RotationFields = {}) {
    const secret = await this.#server.secret({ value, environment: this.environment });
    const { status, body } = await this.#server.admin.rest("PUT", `/api/v1/secrets/${secret.id}/rotation-config`, {
      provider: "gateway",
      provider_settings: { driver, driver_settings: settings },
      gateway_environment: this.environment,
      ...(credentials === undefined ? {} : { credentials }),
    });
    if (status !== 200) throw new Error(`no rotation: ${JSON.stringify(body)}`);
    return { id: secret.id as string, key: secret.key as string, configId: body.id as string };
  }

  /** Queues a rotation, and answers the task. */
  async rotate({ configId }: { readonly configId: string }): Promise<Entry> {
    const { status, body } = await this.#server.admin.rest("POST", `/api/v1/rotation/configs/${configId}/execute`, {});
    if (status !== 200) throw new Error(`no task: ${JSON.stringify(body)}`);
    return body;
  }

  /** The tasks of a secret, the oldest first, once `isSo` holds for them. */
  tasks({ configId }: { readonly configId: string }, isSo: (tasks: Entry[]) => boolean): Promise<Entry[]> {
    return eventually(`such tasks of the configuration ${configId}`, async () => {
      const { body } = await this.#server.admin.rest("GET", `/api/v1/rotation/configs/${configId}/tasks`);
      const tasks = (body as Entry[]).toReversed();
      return isSo(tasks) ? tasks : undefined;
    });
  }

  async value({ id }: { readonly id: string }): Promise<string> {
    return (await this.#server.admin.rest("GET", `/api/v1/secrets/${id}`)).body.value;
  }

  /** The record of a gateway, once `isSo` holds for it. */
  gateway(role: string, isSo: (record: Entry) => boolean = () => true): Promise<Entry> {
    return eventually(`such a ${role} of ${this.environment}`, async () => {
      const { body } = await this.#server.admin.rest("GET", "/api/v1/admin/gateways");
      return (body as Entry[]).find(
        (each) => each["environment"] === this.environment && each["role"] === role && isSo(each),
      );
    });
  }

  async close(): Promise<void> {
    for (const program of this.#programs) program.child.kill("SIGCONT");
    await Promise.all(this.#programs.map((program) => program.end("SIGKILL")));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Gateways of its own for each test of the surrounding `describe` or file. */
export function useGatewayHost(server: TestServer): () => GatewayHost {
  let host: GatewayHost;
  beforeEach(() => {
    host = new GatewayHost(server);
  });
  afterEach(() => host.close());
  return () => host;
}
