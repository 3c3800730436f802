import { randomBytes } from "node:crypto";
import type { GatewayCore } from "../../../src/server/gateways/gateway-core.ts";
import { endOverdueTasks } from "../../../src/server/gateways/task-routing.ts";
import { timingOf } from "../../../src/server/gateways/timing.ts";
import { rotationWork } from "../../../src/server/rotation/rotation-work.ts";
import { until } from "../../faults/own-engines.ts";
import type { Client } from "../../harness/client.ts";
import { TestGateway } from "../../harness/gateway.ts";
import type { TestServer } from "../../harness/server.ts";

/** A secret that the gateways of an environment rotate. */
export interface GatewaySecret {
  readonly id: string;
  readonly key: string;
  readonly configId: string;
}

/** Creates a secret that the active gateway of the environment rotates; nothing happens outside. */
export async function gatewaySecret(
  server: TestServer,
  environment: string,
  fields: Record<string, unknown> = {},
  by: Client = server.admin,
): Promise<GatewaySecret> {
  const { id, key } = await server.secret(fields, by);
  const config = {
    provider: "gateway",
    provider_settings: { driver: "generated_value" },
    gateway_environment: environment,
  };
  const { status, body } = await by.rest("PUT", `/api/v1/secrets/${id}/rotation-config`, config);
  if (status !== 200) throw new Error(`no rotation configuration: ${JSON.stringify(body)}`);
  return { id, key, configId: body.id };
}

/** Asks for a rotation; answers the id of its task. */
export async function rotate(operator: Client, { configId }: GatewaySecret): Promise<string> {
  const { status, body } = await operator.rest("POST", `/api/v1/rotation/configs/${configId}/execute`, {});
  if (status !== 200) throw new Error(`no rotation: ${JSON.stringify(body)}`);
  return body.task_id;
}

/** Queues a task of which no replica says anything, by SQL; answers its id. */
export async function queueSilently(
  server: TestServer,
  gateway: TestGateway,
  { id, configId }: GatewaySecret,
  type: "rotate_secret" | "verify_secret",
): Promise<string> {
  const [task] = await server.sql(
    `insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts, requested_by)
     select organization_id, environment, id, $4, $2, $3, case $4 when 'rotate_secret' then 3 else 1 end, 'system'
     from gateway where id = $1 returning id`,
    [gateway.id, configId, id, type],
  );
  return task.id;
}

/** Queues a check of the secret by a standby gateway; answers the id of its task. */
export const queueCheck = (server: TestServer, gateway: TestGateway, secret: GatewaySecret): Promise<string> =>
  queueSilently(server, gateway, secret, "verify_secret");

/** An environment with a primary that is active and a DR gateway that stands by. */
export interface Pair {
  readonly environment: string;
  readonly primary: TestGateway;
  readonly dr: TestGateway;
}

export async function pair(server: TestServer): Promise<Pair> {
  const environment = `environment-${randomBytes(4).toString("hex")}`;
  const primary = await TestGateway.register(server, { environment });
  const dr = await TestGateway.register(server, { environment, role: "dr-standby" });
  return { environment, primary, dr };
}

/** Lets the DR gateway take over from a primary that is marked as failed; both know how they stand but for the primary. */
export async function failOver(operator: Client, { environment, primary, dr }: Pair): Promise<void> {
  await operator.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, { mark_failed: true });
  const { status, body } = await operator.rest("POST", `/api/v1/admin/failover/${environment}/activate-dr`, {});
  if (status !== 200) throw new Error(`no failover: ${JSON.stringify(body)}`);
  await dr.heartbeat();
}

/** How a task stands, as the gateway's list shows it. */
export async function taskOf(operator: Client, gateway: { readonly id: string }, taskId: string) {
  const { body } = await operator.rest("GET", `/api/v1/admin/gateways/${gateway.id}/tasks?limit=500`);
  return (body as { id: string; status: string; [field: string]: unknown }[]).find(({ id }) => id === taskId);
}

/** The value of a secret, and its version. */
export async function valueOf(server: TestServer, { id }: GatewaySecret): Promise<{ value: string; version: number }> {
  const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
  return { value: body.value, version: body.version };
}

/** The details and the outcomes of the audit events of a task, the oldest first. */
export async function recorded(server: TestServer, taskId: string) {
  const rows = await server.sql(
    `select action, outcome, actor_type, resource_name, reason, details from audit_event
     where resource_type = 'task' and resource_id = $1 order by occurred_at, id`,
    [taskId],
  );
  return rows.map((row) => ({
    action: row.action as string,
    outcome: row.outcome as string,
    actor_type: row.actor_type as string,
    name: row.resource_name as string | null,
    reason: row.reason as string | null,
    details: JSON.parse(row.details) as Record<string, unknown>,
  }));
}

/** What the server's own monitor works with. */
export function gatewayCore({ server: { core } }: TestServer): GatewayCore {
  return { ...core, timing: timingOf(core.config), work: rotationWork(core) };
}

/** Lets the time of a running task be over, and waits until it has ended. */
export async function timeOut(server: TestServer, taskId: string): Promise<void> {
  await server.sql("update gateway_task set deadline_at = now() - interval '1 second' where id = $1", [taskId]);
  await until(async () => {
    await endOverdueTasks(gatewayCore(server));
    const [task] = await server.sql("select status from gateway_task where id = $1", [taskId]);
    return task.status !== "running";
  });
}
