import { randomUUID } from "node:crypto";
import type pg from "pg";
import { auditRow, versionRow } from "./floor-tables.ts";

// What a server does for gateways, as bare statements on tables like its own: of gateways that each hold an environment,
// and of a task for each secret of the floor.

const gateways = 64;

/** Makes and fills them beside the other tables of the floors. */
export async function createFloorGateways(database: pg.Client): Promise<void> {
  await database.query(`
    create table floor.gateway (like public.gateway including all);
    create table floor.environment_lock (like public.environment_lock including all);
    create table floor.gateway_task (like public.gateway_task including all);
    create table floor.rotation_config (like public.rotation_config including all);
    insert into floor.gateway (organization_id, name, environment, role, activation_status, instance_id)
      select gen_random_uuid(), 'gateway-' || n, 'production', 'primary', 'active', gen_random_uuid()
      from generate_series(1, ${gateways}) n;
    insert into floor.environment_lock (organization_id, environment, holder_id, fencing_token, last_token)
      select organization_id, environment, id, 1, 1 from floor.gateway;
    insert into floor.rotation_config (id, organization_id, secret_id, provider)
      select rotation_config_id, organization_id, id, 'gateway' from floor.secret;
    insert into floor.gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts,
        requested_by)
      select s.organization_id, 'production', g.id, 'rotate_secret', s.rotation_config_id, s.id, 3, 'bench'
      from floor.secret s, (select id from floor.gateway limit 1) g;
    analyze floor.gateway, floor.environment_lock, floor.gateway_task, floor.rotation_config`);
}

/** A task, with all that its statements name. */
export interface FloorTask {
  readonly id: string;
  readonly organizationId: string;
  readonly gatewayId: string;
  readonly configId: string;
  readonly secretId: string;
}

export async function floorGateways(pool: pg.Pool): Promise<string[]> {
  return (await pool.query<{ id: string }>("select id from floor.gateway")).rows.map(({ id }) => id);
}

export async function floorTasks(pool: pg.Pool): Promise<FloorTask[]> {
  const { rows } = await pool.query<FloorTask>(
    `select id, organization_id as "organizationId", gateway_id as "gatewayId", config_id as "configId",
       secret_id as "secretId" from floor.gateway_task order by random()`,
  );
  return rows;
}

const standing = `activation_status, deactivated_at is not null as deactivated,
  (select l.fencing_token::text from floor.environment_lock l
   where l.organization_id = g.organization_id and l.environment = g.environment and l.holder_id = g.id) as fencing_token`;

/** A heartbeat. */
export const beat = (gatewayId: string) => ({
  name: "beat",
  text: `update floor.gateway g set last_heartbeat = now(), silent_since = now() where id = $1 returning ${standing}`,
  values: [gatewayId],
});

const readGateway = ({ gatewayId }: FloorTask) => ({
  name: "gateway",
  text: "select id, name, environment, role, activation_status, instance_id, deactivated_at, retired_at from floor.gateway where id = $1",
  values: [gatewayId],
});

const shareLock = ({ gatewayId }: FloorTask) => ({
  name: "share",
  text: "select holder_id, fencing_token from floor.environment_lock where holder_id = $1 for share",
  values: [gatewayId],
});

const startTask = ({ id }: FloorTask) => ({
  name: "start",
  text: `update floor.gateway_task set status = 'running', claim_id = $2, fencing_token = 1, claimed_at = now(),
    deadline_at = now() + interval '30 seconds', finished_at = null where id = $1`,
  values: [id, randomUUID()],
});

const endTask = ({ id }: FloorTask) => ({
  name: "end",
  text: "update floor.gateway_task set status = 'succeeded', finished_at = now() where id = $1 and status = 'running'",
  values: [id],
});

const secretColumns = "key, environment, status, version, metadata, sealed, wrapped";

const readSecret = ({ secretId }: FloorTask) => ({
  name: "secret of task",
  text: `select ${secretColumns} from floor.secret where id = $1`,
  values: [secretId],
});

const lockSecret = ({ secretId }: FloorTask) => ({
  name: "locked secret",
  text: `select ${secretColumns} from floor.secret where id = $1 for update`,
  values: [secretId],
});

const readConfig = ({ configId }: FloorTask) => ({
  name: "config",
  text: "select candidate from floor.rotation_config where id = $1",
  values: [configId],
});

const writeConfig = ({ configId }: FloorTask, candidate: Buffer | null) => ({
  name: "candidate",
  text: "update floor.rotation_config set candidate = $2 where id = $1",
  values: [configId, candidate],
});

const writeSecret = ({ secretId }: FloorTask) => ({
  name: "version of secret",
  text: "update floor.secret set version = version + 1, updated_at = now(), last_rotated = now() where id = $1",
  values: [secretId],
});

const candidate = Buffer.alloc(61, 1);

/** The statements of a claim, between BEGIN and COMMIT. */
export const claim = (task: FloorTask) => [
  readGateway(task),
  shareLock(task),
  startTask(task),
  readSecret(task),
  writeConfig(task, candidate),
  auditRow("task.claim"),
];

/** The statements of a report, between BEGIN and COMMIT. */
export const complete = (task: FloorTask) => [
  readGateway(task),
  shareLock(task),
  endTask(task),
  lockSecret(task),
  readConfig(task),
  readSecret(task),
  versionRow(randomUUID()),
  writeConfig(task, null),
  writeSecret(task),
  auditRow("task.complete"),
];
