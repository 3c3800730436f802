import type { Answer, Client } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";

/** The path of the rotation configuration of a secret. */
export const configPath = (secretId: string) => `/api/v1/secrets/${secretId}/rotation-config`;

/** Every field of a configuration that an answer holds. */
export const configKeys = [
  "id",
  "secret_id",
  "enabled",
  "interval_days",
  "provider",
  "provider_settings",
  "has_credentials",
  "gateway_environment",
  "next_rotation",
  "last_rotated",
  "last_status",
  "last_error",
  "consecutive_failures",
  "created_at",
  "updated_at",
  "grace_period_days",
] as const;

/** What gateways of an environment do by a command of theirs. */
export const byCommand = {
  provider: "gateway",
  provider_settings: { driver: "command", driver_settings: { command: "rotate-app" } },
} as const;

/** What gateways of an environment do by a webhook. */
export const byWebhook = (settings: Record<string, unknown> = {}) => ({
  provider: "gateway",
  provider_settings: {
    driver: "webhook",
    driver_settings: { url: "https://rotate.example.com/hook", ...settings },
  },
});

/** What the server does itself by a webhook. */
export const pushTo = (url: string, settings: Record<string, unknown> = {}) => ({
  provider: "webhook",
  provider_settings: { url, ...settings },
});

/** Rotation configurations of a server, as a client sees them. */
export class Configurations {
  readonly #server: TestServer;

  constructor(server: TestServer) {
    this.#server = server;
  }

  async get(secretId: string, by: Client = this.#server.admin) {
    return (await by.rest("GET", configPath(secretId))).body;
  }

  put(secretId: string, body: unknown, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("PUT", configPath(secretId), body);
  }

  /** A new secret, and its configuration with these fields. */
  async of(fields: Record<string, unknown> = {}, secretFields: Record<string, unknown> = {}) {
    const secret = await this.#server.secret(secretFields);
    const { status, body } = await this.put(secret.id, fields);
    if (status !== 200) throw new Error(`no configuration: ${JSON.stringify(body)}`);
    return { secret, config: body };
  }

  rotate(secretId: string, body: unknown = {}, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("POST", `/api/v1/secrets/${secretId}/rotate`, body);
  }

  execute(configId: string, by: Client, body: unknown = {}): Promise<Answer> {
    return by.rest("POST", `/api/v1/rotation/configs/${configId}/execute`, body);
  }

  async tasks(configId: string) {
    return (await this.#server.admin.rest("GET", `/api/v1/rotation/configs/${configId}/tasks`)).body;
  }
}
