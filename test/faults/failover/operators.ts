import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Answer, Client } from "../../harness/client.ts";
import { type Witness, withoutNumbers } from "./witness.ts";

/** An environment as gateway-health shows it. */
interface EnvironmentHealth {
  readonly environment: string;
  readonly status: "healthy" | "degraded" | "failed_over" | "down";
  readonly active_gateway_id: string | null;
  readonly tasks: { readonly pending: number; readonly running: number };
}

/** A gateway as gateway-health shows it. */
interface GatewayVitals {
  readonly id: string;
  readonly environment: string;
  readonly role: "primary" | "dr-standby";
  readonly activation_status: "active" | "standby" | "failed";
  readonly healthy: boolean;
}

/** The dashboard is read that often. */
const readMs = 250;

/** The operators of an organization: they watch its gateways, and call whichever replica. */
export class Operators {
  /** One for each replica. */
  readonly #clients: readonly Client[];
  readonly #random: () => number;
  readonly #witness: Witness;
  #environments: readonly EnvironmentHealth[] = [];
  #gateways: readonly GatewayVitals[] = [];
  #isOver = false;

  constructor(clients: readonly Client[], random: () => number, witness: Witness) {
    this.#clients = clients;
    this.#random = random;
    this.#witness = witness;
  }

  /** Reads the dashboard again and again until `stop`. */
  async watch(): Promise<void> {
    while (!this.#isOver) {
      const health = await this.#call("dashboards", "GET", "/api/v1/admin/gateway-health");
      if (health !== undefined) ({ environments: this.#environments, gateways: this.#gateways } = health.body);
      await sleep(readMs);
    }
  }

  stop(): void {
    this.#isOver = true;
  }

  /** As it was a moment ago. */
  environment(name: string): EnvironmentHealth | undefined {
    return this.#environments.find(({ environment }) => environment === name);
  }

  /** The gateways of an environment with a role, as they were a moment ago. */
  gateways(name: string, role: GatewayVitals["role"]): GatewayVitals[] {
    return this.#gateways.filter((gateway) => gateway.environment === name && gateway.role === role);
  }

  /** Answers whether it was done. */
  async activateDr(environment: string, gatewayId?: string): Promise<boolean> {
    const body = gatewayId === undefined ? {} : { gateway_id: gatewayId };
    const path = `/api/v1/admin/failover/${environment}/activate-dr`;
    return (await this.#operate("gateway.activate_dr", path, body)) !== undefined;
  }

  async failback(environment: string): Promise<boolean> {
    return (
      (await this.#operate("gateway.failback", `/api/v1/admin/failover/${environment}/failback`, {})) !== undefined
    );
  }

  async deactivate(gatewayId: string, markFailed = false): Promise<boolean> {
    const path = `/api/v1/admin/gateways/${gatewayId}/deactivate`;
    return (await this.#operate("gateway.deactivate", path, { mark_failed: markFailed })) !== undefined;
  }

  /** Has a secret rotated by its configuration. */
  async execute(configId: string): Promise<void> {
    await this.#call("executions", "POST", `/api/v1/rotation/configs/${configId}/execute`, {});
  }

  async #operate(action: string, path: string, body: unknown): Promise<Answer | undefined> {
    const requestId = randomUUID();
    const answer = await this.#call(action, "POST", path, body, { "x-request-id": requestId });
    if (answer === undefined) return undefined;
    const token = answer.body.fencing_token === undefined ? {} : { token: BigInt(answer.body.fencing_token) };
    this.#witness.sightings.push({ of: "operation", action, requestId, ...token });
    return answer;
  }

  /** The answer, if it is 200. */
  async #call(
    what: string,
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer | undefined> {
    const client = this.#clients[Math.floor(this.#random() * this.#clients.length)] as Client;
    const answer = await client.rest(method, path, body, headers).catch(() => undefined);
    if (answer?.status === 200) this.#witness.count(`${what} done`);
    else if (answer === undefined) this.#witness.count(`${what} without an answer`);
    // The dashboard of a moment ago may show a gateway that is retired by now.
    else if ([409, 503].includes(answer.status) || (answer.status === 404 && what === "gateway.deactivate")) {
      this.#witness.count(`${what} refused: ${answer.status} ${withoutNumbers(answer.body?.error?.message ?? "")}`);
    } else this.#witness.strange.push(`${what}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer?.status === 200 ? answer : undefined;
  }
}
