import { Client } from "../../harness/client.ts";
import { EnvironmentLife, type EnvironmentLifeOptions } from "./environment-life.ts";
import { Gateway, type GatewayProcess } from "./gateway.ts";
import { Operators } from "./operators.ts";
import { ProgramProcess } from "./program-process.ts";
import { ReplicatedServer } from "./replicated-server.ts";
import { SimulatedProcess } from "./simulated-process.ts";
import { Witness } from "./witness.ts";

const environmentsOfEach = 6;
const secretsOfEach = 3;

/** Who administers an organization: the token never expires, and is no JWT, which replicas judge by their own clocks. */
interface Administrator {
  readonly token: string;
  readonly projectId: string;
}

/** What gateways log in with. */
interface GatewayIdentity {
  readonly clientId: string;
  readonly clientSecret: string;
}

type Gateways = Pick<EnvironmentLifeOptions, "newPrimary" | "dr">;

/** Organizations with environments of the same names, each with a primary and a DR gateway, and all that may befall them. */
export class FailoverStage {
  readonly server: ReplicatedServer = new ReplicatedServer({
    HEARTBEAT_TIMEOUT_SECONDS: "2",
    FAILURE_THRESHOLD: "2",
    TASK_TIMEOUT_SECONDS: "2",
    GATEWAY_VERIFY_INTERVAL_SECONDS: "20",
    RATE_LIMIT_AGENT: "0",
    LOG_LEVEL: "info",
  });
  readonly witness: Witness = new Witness();
  readonly lives: EnvironmentLife[] = [];
  readonly operators: Operators[] = [];
  /** Those that are rotated, and who reads them. */
  readonly secrets: { readonly id: string; readonly reader: Client }[] = [];
  readonly #nextRandom: () => () => number;

  /** `nextRandom` gives a source of its own to everybody who acts by chance. */
  constructor(nextRandom: () => () => number) {
    this.#nextRandom = nextRandom;
  }

  async start(): Promise<void> {
    await this.server.start();
    const other = await this.server.otherOrganization();
    const first = { admin: this.server.admin, projectId: this.server.projectId };
    for (const { admin, projectId } of [first, other]) {
      await this.#addOrganization({ token: await apiTokenOf(admin), projectId });
    }
  }

  async stop(): Promise<void> {
    for (const life of this.lives) life.end();
    for (const each of this.operators) each.stop();
    await this.server.stop();
  }

  /** Has the values of the secrets seen, each of its last versions. */
  async readSecrets(): Promise<void> {
    for (const { id, reader } of this.secrets) {
      const { body: current } = await reader.rest("GET", `/api/v1/secrets/${id}`);
      for (let version = current.version; version > Math.max(0, current.version - 3); version -= 1) {
        const { body } = await reader.rest("GET", `/api/v1/secrets/${id}?version=${version}`);
        this.witness.sightings.push({ of: "value", secret: id, version, value: body.value });
      }
    }
  }

  async #addOrganization({ token, projectId }: Administrator): Promise<void> {
    const clients = this.server.urls.map((url) => new Client(url, token));
    const operators = new Operators(clients, this.#nextRandom(), this.witness);
    this.operators.push(operators);
    const admin = clients[0] as Client;
    const identity = await addGatewayIdentity(admin);
    for (let index = 0; index < environmentsOfEach; index += 1) {
      const name = `environment-${index}`;
      const configIds: string[] = [];
      for (let secrets = 0; secrets < secretsOfEach; secrets += 1) {
        configIds.push(await this.#addSecret(admin, { environment: name, project_id: projectId }));
      }
      const make = index === 0 ? this.#programs(identity, name) : await this.#simulations(identity, name);
      this.#addEnvironment({ name, operators, configIds, ...make });
    }
  }

  #addEnvironment(options: Omit<EnvironmentLifeOptions, "random" | "witness">): void {
    this.lives.push(new EnvironmentLife({ ...options, random: this.#nextRandom(), witness: this.witness }));
  }

  /** Gateways as they are run on hosts; they log in, and so keep to replicas that agree on the time. */
  #programs({ clientId, clientSecret }: GatewayIdentity, environment: string): Gateways {
    const settings = {
      SERVER_URL: this.server.urls.slice(0, -1).join(","),
      CLIENT_ID: clientId,
      CLIENT_SECRET: clientSecret,
      GATEWAY_ENVIRONMENT: environment,
      GATEWAY_PORT: "off",
    };
    return gatewaysOf(environment, (role, name) => () => {
      return new ProgramProcess({ ...settings, GATEWAY_ROLE: role, GATEWAY_NAME: name }, this.witness);
    });
  }

  async #simulations({ clientId, clientSecret }: GatewayIdentity, environment: string): Promise<Gateways> {
    const { witness, server } = this;
    const token = await apiTokenOf(await server.login(clientId, clientSecret));
    return gatewaysOf(environment, (role, name) => {
      const random = this.#nextRandom();
      return () => new SimulatedProcess({ urls: server.urls, token, name, environment, role, random, witness });
    });
  }

  /** Answers the id of its rotation configuration. */
  async #addSecret(by: Client, fields: Record<string, unknown>): Promise<string> {
    const { id } = await this.server.secret(fields, by);
    const settings = { provider: "gateway", provider_settings: { driver: "generated_value" } };
    const { status, body } = await by.rest("PUT", `/api/v1/secrets/${id}/rotation-config`, settings);
    if (status !== 200) throw new Error(`no rotation: ${JSON.stringify(body)}`);
    this.secrets.push({ id, reader: by });
    return body.id;
  }
}

type Role = "primary" | "dr-standby";

/** `make` answers what starts a process of a gateway. */
function gatewaysOf(environment: string, make: (role: Role, name: string) => () => GatewayProcess): Gateways {
  let primaries = 0;
  const newPrimary = () => new Gateway(make("primary", `${environment}-primary-${(primaries += 1)}`));
  return { newPrimary, dr: new Gateway(make("dr-standby", `${environment}-dr`)) };
}

async function addGatewayIdentity(by: Client): Promise<GatewayIdentity> {
  const { body: identity } = await by.rest("POST", "/api/v1/machine-identities", {
    name: "gateways",
    roles: ["gateway"],
  });
  const { body } = await by.rest("POST", `/api/v1/machine-identities/${identity.id}/client-secrets`, {});
  return { clientId: identity.client_id, clientSecret: body.client_secret };
}

async function apiTokenOf(client: Client): Promise<string> {
  const { status, body } = await client.rest("POST", "/api/v1/api-tokens", { name: "failover", expires_in_days: null });
  if (status !== 201) throw new Error(`no API token: ${JSON.stringify(body)}`);
  return body.token;
}
