import { randomBytes } from "node:crypto";
import { credentials } from "@grpc/grpc-js";
import { AgentLinkService } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { createGrpcClient } from "../../src/client/grpc-client.ts";
import type { Credentials, GatewayAccount } from "./load.ts";
import { inParallel } from "./parallel.ts";

/** The REST API, for what has to be there before anything is measured. */
export class Api {
  readonly token: string;
  readonly #url: string;

  private constructor(url: string, token: string) {
    this.#url = url;
    this.token = token;
  }

  static async login(port: number, { clientId, clientSecret }: Credentials): Promise<Api> {
    const url = `http://127.0.0.1:${port}/api/v1`;
    const body = { client_id: clientId, client_secret: clientSecret };
    const { access_token: token } = await new Api(url, "").post("/auth/universal-auth/login", body);
    return new Api(url, token as string);
  }

  async project(name: string): Promise<string> {
    return (await this.post("/projects", { name }))["id"] as string;
  }

  /** Creates so many secrets in a project; resolves to their ids. */
  secrets(projectId: string, count: number): Promise<string[]> {
    return inParallel(count, async (n) => {
      const body = { project_id: projectId, key: `key-${String(n).padStart(6, "0")}`, value: `value of secret ${n}` };
      return (await this.post("/secrets", body))["id"] as string;
    });
  }

  /** Creates so many machine identities; resolves to their credentials. */
  identities(count: number, { name = "client", role = "viewer" } = {}): Promise<Credentials[]> {
    return inParallel(count, async (n) => {
      const identity = await this.post("/machine-identities", { name: `${name} ${n}`, roles: [role] });
      const secret = await this.post(`/machine-identities/${identity["id"] as string}/client-secrets`, {});
      return { clientId: identity["client_id"] as string, clientSecret: secret["client_secret"] as string };
    });
  }

  /** Creates so many users who are enrolled with this verifier; resolves to their usernames. */
  users(count: number, verifier: Uint8Array): Promise<string[]> {
    return inParallel(count, async (n) => {
      const username = `user-${n}`;
      const { enrollment_token } = await this.post("/users", { username });
      const [salt, encoded] = [randomBytes(32), verifier].map((bytes) => Buffer.from(bytes).toString("base64"));
      await this.post("/auth/srp/enroll", { username, enrollment_token, salt, verifier: encoded });
      return username;
    });
  }

  /** Enrolls so many agents; resolves to their credentials. */
  async agents(count: number): Promise<Credentials[]> {
    const link = createGrpcClient(AgentLinkService, new URL(this.#url).host, credentials.createInsecure());
    try {
      return await inParallel(count, async (n) => {
        const { token } = await this.post("/agents/enrollment-tokens", {});
        const request = { enrollmentToken: token as string, hostname: `${n}.example.com` };
        const { clientId, clientSecret } = await link.enroll(request);
        return { clientId, clientSecret };
      });
    } finally {
      link.close();
    }
  }

  /** Creates so many machine identities for gateways, a primary and its DR gateway in turn; resolves to their accounts. */
  async gateways(count: number, name: string): Promise<GatewayAccount[]> {
    const identities = await this.identities(count, { name, role: "gateway" });
    return identities.map((credentials, n) => ({
      ...credentials,
      name: `${name}-${n}`,
      environment: `${name}-${Math.floor(n / 2)}`,
      role: n % 2 === 0 ? "primary" : "dr-standby",
    }));
  }

  /** Creates so many secrets that the gateway of an environment rotates; resolves to the ids of their configurations, by secret. */
  async rotatedSecrets(count: number, environment: string): Promise<Map<string, string>> {
    const ids = await this.secrets(await this.project(environment), count);
    const body = {
      provider: "gateway",
      provider_settings: { driver: "generated_value" },
      gateway_environment: environment,
    };
    const configs = await inParallel(count, (n) => this.put(`/secrets/${ids[n]}/rotation-config`, body));
    return new Map(configs.map(({ id, secret_id }) => [secret_id as string, id as string]));
  }

  /** Has secrets rotated every thirty days, by what the configuration says. */
  async rotated(ids: readonly string[], config: (n: number) => object): Promise<void> {
    await inParallel(ids.length, (n) =>
      this.put(`/secrets/${ids[n]}/rotation-config`, { enabled: true, interval_days: 30, ...config(n) }),
    );
  }

  /** Links each secret to a port of 127.0.0.1. */
  async linked(ids: readonly string[], portOf: (n: number) => number): Promise<void> {
    await inParallel(ids.length, (n) =>
      this.post(`/secrets/${ids[n]}/links`, {
        integration: "webhook",
        config: { url: `http://127.0.0.1:${portOf(n)}/` },
      }),
    );
  }

  post(path: string, body: object): Promise<Record<string, unknown>> {
    return this.#send("POST", path, body);
  }

  put(path: string, body: object): Promise<Record<string, unknown>> {
    return this.#send("PUT", path, body);
  }

  async #send(method: string, path: string, body: object): Promise<Record<string, unknown>> {
    const headers = {
      "content-type": "application/json",
      ...(this.token && { authorization: `Bearer ${this.token}` }),
    };
    const answer = await fetch(`${this.#url}${path}`, { method, headers, body: JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }
}
