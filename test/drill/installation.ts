import { createHash, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Holdfast } from "../cli/holdfast.ts";
import { ServerProcess } from "../faults/server-process.ts";
import { Client } from "../harness/client.ts";
import { Program } from "../harness/program.ts";
import type { Applied, Evidence, Task } from "./evidence.ts";

export const environment = "drill";
export type Site = "primary" | "dr";

interface Account {
  readonly clientId: string;
  readonly clientSecret: string;
}

const secrets = 6;
/** How long a target takes to take a value. */
const workMs = 400;
const taskTimeoutSeconds = 10;
const record = fileURLToPath(new URL("./record.ts", import.meta.url));

/** A server on embedded engines, a primary and a DR gateway on loopback, and secrets that they rotate. */
export class Installation {
  readonly #heartbeatTimeout: number;
  #folder = "";
  #server: ServerProcess | undefined;
  #cli: Holdfast | undefined;
  #url = "";
  #admin!: Client;
  readonly #accounts = new Map<Site, Account>();
  readonly #programs = new Map<Site, Program>();
  /** The secrets by their rotation configurations. */
  readonly #secrets = new Map<string, string>();
  readonly #interruption = new AbortController();

  constructor(heartbeatTimeout: number) {
    this.#heartbeatTimeout = heartbeatTimeout;
  }

  get url(): string {
    return this.#url;
  }

  get configIds(): string[] {
    return [...this.#secrets.keys()];
  }

  async start(): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), "holdfast-drill-"));
    // PostgreSQL, which root runs as another user, has to pass.
    await chmod(this.#folder, 0o711);
    this.#interruption.signal.throwIfAborted();
    const administrator = { clientId: "drill", clientSecret: randomBytes(24).toString("base64url") };
    this.#server = new ServerProcess({
      SERVICE_DATA_DIR: join(this.#folder, "data"),
      SERVICE_PORT: "0",
      SERVICE_OCSP_PORT: "0",
      SERVICE_RATE_LIMIT_API: "0",
      SERVICE_RATE_LIMIT_AUTH: "0",
      SERVICE_HEARTBEAT_TIMEOUT_SECONDS: String(this.#heartbeatTimeout),
      SERVICE_TASK_TIMEOUT_SECONDS: String(taskTimeoutSeconds),
      SERVICE_BOOTSTRAP_CLIENT_ID: administrator.clientId,
      SERVICE_BOOTSTRAP_CLIENT_SECRET: administrator.clientSecret,
    });
    this.#url = await this.#server.ready();
    this.#admin = await this.#login(administrator);
    this.#cli = new Holdfast({
      HOLDFAST_URL: this.#url,
      HOLDFAST_CLIENT_ID: administrator.clientId,
      HOLDFAST_CLIENT_SECRET: administrator.clientSecret,
    });
    for (const site of ["primary", "dr"] as const) this.#accounts.set(site, await this.#addAccount(site));
    const { data } = await this.get("/api/v1/projects");
    for (let index = 0; index < secrets; index += 1) await this.#addSecret(data[0].id, `SECRET_${index}`);
  }

  /** Starts the gateway of a site. */
  startGateway(site: Site): void {
    this.#interruption.signal.throwIfAborted();
    const { clientId, clientSecret } = this.#accounts.get(site) as Account;
    const settings = {
      SERVER_URL: this.#url,
      CLIENT_ID: clientId,
      CLIENT_SECRET: clientSecret,
      GATEWAY_ENVIRONMENT: environment,
      GATEWAY_ROLE: site === "primary" ? "primary" : "dr-standby",
      GATEWAY_NAME: site,
      GATEWAY_PORT: "off",
      GATEWAY_COMMANDS_FILE: this.#commandsFile(site),
    };
    const named = Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]);
    const PATH = `${dirname(process.execPath)}:${process.env["PATH"]}`;
    this.#programs.set(site, new Program("gateway", { PATH, HOME: this.#folder, ...Object.fromEntries(named) }));
  }

  async killGateway(site: Site): Promise<void> {
    await this.#programs.get(site)?.end("SIGKILL");
  }

  /** Runs `holdfast …`; answers what it printed, or throws what it said. */
  async holdfast(args: string): Promise<string> {
    return (await (this.#cli as Holdfast).print(args)).trim();
  }

  // oxlint-disable-next-line typescript/no-explicit-any
  async get(path: string): Promise<any> {
    const { status, body } = await this.#admin.rest("GET", path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  /** Has a secret rotated; answers the task, or undefined while another one is not done. */
  async rotate(configId: string): Promise<string | undefined> {
    const { status, body } = await this.#admin.rest("POST", `/api/v1/rotation/configs/${configId}/execute`, {});
    if (status === 200) return body.task_id;
    if (status !== 409) throw new Error(`no rotation: ${status} ${JSON.stringify(body)}`);
    return undefined;
  }

  /** What is left when all is over; `accepted` are the tasks that the server said it would do. */
  async evidence(accepted: readonly string[]): Promise<Evidence> {
    const tasks: Task[] = [];
    const kept = new Map<string, { hash: string; rotations: number }>();
    for (const [configId, id] of this.#secrets) {
      const all: (Task & { type: string })[] = await this.get(`/api/v1/rotation/configs/${configId}/tasks`);
      tasks.push(...all.filter(({ type }) => type === "rotate_secret"));
      const { value } = await this.get(`/api/v1/secrets/${id}`);
      const { data } = await this.get(`/api/v1/secrets/${id}/versions`);
      const rotations = data.filter((version: { change_type: string }) => version.change_type === "rotation").length;
      kept.set(id, { hash: createHash("sha256").update(value).digest("hex"), rotations });
    }
    return { accepted, tasks, applied: this.#applied(), secrets: kept };
  }

  /** What went before an end that nobody wanted. */
  get lastWords(): string {
    const said = [
      this.#server?.stdout,
      this.#server?.stderr,
      ...[...this.#programs.values()].map(({ output }) => output),
    ];
    return said.map((text) => text?.trimEnd().split("\n").slice(-5).join("\n")).join("\n");
  }

  /** Ends all programs at once, so that whatever goes on fails. `stop` is still to be called. */
  interrupt(): void {
    this.#interruption.abort();
    for (const { child } of this.#programs.values()) child.kill("SIGKILL");
    this.#server?.signal("SIGTERM");
  }

  async stop(): Promise<void> {
    this.interrupt();
    await Promise.all([...this.#programs.values()].map(({ ended }) => ended));
    await this.#server?.ended;
    this.#cli?.remove();
    // The engines may need a moment to notice that they are alone.
    if (this.#folder !== "") await rm(this.#folder, { recursive: true, force: true, maxRetries: 20 });
  }

  async #login({ clientId, clientSecret }: Account): Promise<Client> {
    const body = { client_id: clientId, client_secret: clientSecret };
    const answer = await new Client(this.#url, undefined).rest("POST", "/api/v1/auth/universal-auth/login", body);
    return new Client(this.#url, answer.body.access_token);
  }

  async #addAccount(site: Site): Promise<Account> {
    const name = `gateway-${site}`;
    const { client_id } = JSON.parse(await this.holdfast(`admin identity create ${name} --role gateway --json`));
    const { client_secret } = JSON.parse(await this.holdfast(`admin identity secret create ${name} --json`));
    return { clientId: client_id, clientSecret: client_secret };
  }

  async #addSecret(projectId: string, key: string): Promise<void> {
    const secret = { key, value: "first", project_id: projectId, environment };
    const { body } = await this.#admin.rest("POST", "/api/v1/secrets", secret);
    const { status, body: config } = await this.#admin.rest("PUT", `/api/v1/secrets/${body.id}/rotation-config`, {
      provider: "gateway",
      provider_settings: { driver: "command", driver_settings: { command: "record" } },
    });
    if (status !== 200) throw new Error(`no rotation: ${JSON.stringify(config)}`);
    this.#secrets.set(config.id, body.id);
  }

  get #journal(): string {
    return join(this.#folder, "applied");
  }

  #applied(): Applied[] {
    if (!existsSync(this.#journal)) return [];
    return readFileSync(this.#journal, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  }

  #commandsFile(site: Site): string {
    const path = join(this.#folder, `${site}.json`);
    const argv = [process.execPath, record, this.#journal, site, String(workMs)];
    writeFileSync(path, JSON.stringify({ record: { argv } }), { mode: 0o600 });
    return path;
  }
}
