import type { GatewayCore } from "../../src/server/gateways/gateway-core.ts";
import { lookAfterGateways } from "../../src/server/gateways/monitor.ts";
import { timingOf } from "../../src/server/gateways/timing.ts";
import { rotationWork } from "../../src/server/rotation/context.ts";
import type { Answer, Client } from "./client.ts";
import { TestGateway } from "./gateway.ts";
import type { TestServer } from "./server.ts";

/** What the gateways of a server are looked after with. */
export function gatewayCoreOf({ server: { core } }: TestServer): GatewayCore {
  return {
    ...core,
    timing: timingOf(core.config),
    work: rotationWork(core),
  };
}

/** Lets the monitor have a round now, and waits for its end. */
export async function monitorRound(server: TestServer): Promise<void> {
  const core = gatewayCoreOf(server);
  let isDone = false;
  while (!isDone) {
    // Otherwise it would be too soon after the one that went by itself.
    await server.sql("update gateway_monitor set last_run = least(last_run, now() - make_interval(secs => $1))", [
      core.timing.monitorInterval,
    ]);
    isDone = await lookAfterGateways(core);
  }
}

/** Who may fail environments over in an organization of its own. */
export async function foreignOperator(server: TestServer): Promise<Client> {
  const { admin } = await server.otherOrganization();
  return server.as("operator", ["gateway:admin"], admin);
}

/** An environment with a primary, which is active, and a DR gateway; and who may fail it over. */
export class FailoverPair {
  readonly primary: TestGateway;
  readonly dr: TestGateway;
  readonly #server: TestServer;
  readonly #operator: Client;

  private constructor(server: TestServer, operator: Client, primary: TestGateway, dr: TestGateway) {
    this.#server = server;
    this.#operator = operator;
    this.primary = primary;
    this.dr = dr;
  }

  static async register(server: TestServer, operator: Client): Promise<FailoverPair> {
    const primary = await TestGateway.register(server);
    const dr = await TestGateway.register(server, { environment: primary.environment, role: "dr-standby" });
    return new FailoverPair(server, operator, primary, dr);
  }

  get environment(): string {
    return this.primary.environment;
  }

  activateDr(body: unknown = {}, by = this.#operator): Promise<Answer> {
    return by.rest("POST", `/api/v1/admin/failover/${this.environment}/activate-dr`, body);
  }

  failback(body: unknown = {}, by = this.#operator): Promise<Answer> {
    return by.rest("POST", `/api/v1/admin/failover/${this.environment}/failback`, body);
  }

  deactivate({ id }: TestGateway, body: unknown = {}, by = this.#operator): Promise<Answer> {
    return by.rest("POST", `/api/v1/admin/gateways/${id}/deactivate`, body);
  }

  retire({ id }: TestGateway, by = this.#operator): Promise<Answer> {
    return by.rest("DELETE", `/api/v1/admin/gateways/${id}`);
  }

  /** Lets a gateway be silent for longer than the threshold, and the monitor notice. */
  async fail(gateway: TestGateway): Promise<void> {
    await gateway.fallSilent();
    await monitorRound(this.#server);
  }

  /** Fails the primary and activates the DR gateway. */
  async failOver(): Promise<void> {
    await this.fail(this.primary);
    const { status, body } = await this.activateDr();
    if (status !== 200) throw new Error(`no failover: ${JSON.stringify(body)}`);
    await this.dr.heartbeat();
  }

  /** Another gateway of the environment. */
  another(role: "primary" | "dr-standby", name?: string): Promise<TestGateway> {
    const fields = { environment: this.environment, role };
    return TestGateway.register(this.#server, name === undefined ? fields : { ...fields, name });
  }

  /** The record of a gateway, as it is listed; undefined when it is not. */
  async record({ id }: TestGateway) {
    const { body } = await this.#operator.rest("GET", "/api/v1/admin/gateways");
    return body.find((each: { id: string }) => each.id === id);
  }

  /** Who is what, in the order in which they are given. */
  async statuses(...gateways: TestGateway[]): Promise<string[]> {
    const { body } = await this.#operator.rest("GET", "/api/v1/admin/gateways");
    const byId = new Map<string, string>(
      body.map((each: { id: string; activation_status: string }) => [each.id, each.activation_status]),
    );
    return gateways.map(({ id }) => byId.get(id) ?? "retired");
  }

  /** What gateway-health says of the environment. */
  async health() {
    const { body } = await this.#operator.rest("GET", "/api/v1/admin/gateway-health");
    return body.environments.find(({ environment }: { environment: string }) => environment === this.environment);
  }

  /** The audit events of the environment by these actions, the oldest first. */
  async events(...actions: string[]) {
    const rows = await this.#server.sql(
      `select action, outcome, actor_type, actor_name, resource_type, resource_id, resource_name, reason, details
       from audit_event where action = any($1) and details::jsonb ->> 'environment' = $2 order by occurred_at, id`,
      [actions, this.environment],
    );
    return rows.map((row) => ({ ...row, details: JSON.parse(row.details) }));
  }
}
