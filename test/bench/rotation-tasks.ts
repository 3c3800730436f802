import { compare } from "./compare.ts";
import type { GatewayAccount } from "./load.ts";
import type { Effort } from "./options.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { statementSubject } from "./statements.ts";
import type { Subject } from "./subjects.ts";
import type { Line } from "./table.ts";

const claimers = 16;
/** More than are done in a second. */
const mostPerSecond = 1500;

/** Queues a task for each configuration of an environment that has none, as executing it does. */
const queueTasks = `insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts,
    requested_by)
  select c.organization_id, c.gateway_environment, l.holder_id, 'rotate_secret', c.id, c.secret_id, 3, 'system'
  from rotation_config c
  left join environment_lock l on l.organization_id = c.organization_id and l.environment = c.gateway_environment
  where c.gateway_environment = $1 on conflict do nothing`;

/**
 * How many tasks a gateway claims and completes, each of them a rotation that only makes a value, beside the statements
 * of that through pg alone. The tasks of a round are queued before it.
 */
export async function measureRotationTasks(stage: Stage, server: Holdfast, effort: Effort): Promise<Line[]> {
  const { api, database, port, pid } = server;
  const [gateway] = (await api.gateways(1, "rotation")) as [GatewayAccount];
  const roundMs = Math.max(effort.warmUpMs, effort.rampMs + effort.measureMs);
  await api.rotatedSecrets(Math.ceil((mostPerSecond * roundMs) / 1000), gateway.environment);
  // As PostgreSQL does by itself within a minute.
  await database.query("analyze secret, secret_version, data_key, rotation_config");
  const load = stage.load("task-load.ts");
  const run: Subject["run"] = async (inFlight, pace) => {
    await database.query(queueTasks, [gateway.environment]);
    return [await load.run({ kind: "tasks", port, gateway, inFlight, ...pace })];
  };
  const ours: Subject = { name: "gRPC", pid, loadPids: [load.pid], run };
  const floor = statementSubject("statements", stage.load("statement-load.ts"), server, "task");
  const against = [{ subject: floor, serverTime: true as const }];
  return compare({ name: "claim and complete a task", ours, against }, { ...effort, connections: [1, claimers] });
}
