import { randomUUID, randomUUIDv7 } from "node:crypto";
import type pg from "pg";
import { auditRow, versionRow } from "./floor-tables.ts";

// What servers do to rotate a secret and to bring it to where a link leads, as bare statements on tables like their own.

/** Makes and fills them beside the other tables of the floors, with a configuration and a link for each secret there. */
export async function createFloorRotations(database: pg.Client): Promise<void> {
  await database.query(`
    create table floor.gateway_task (like public.gateway_task including all);
    create table floor.rotation_config (like public.rotation_config including all);
    create table floor.secret_link (like public.secret_link including all);
    insert into floor.rotation_config (id, organization_id, secret_id)
      select rotation_config_id, organization_id, id from floor.secret;
    insert into floor.secret_link (organization_id, secret_id, integration, config, place, host, created_by)
      select organization_id, id, 'webhook', '{"url":"http://127.0.0.1/"}', sealed, '127.0.0.1', 'bench' from floor.secret;
    analyze floor.rotation_config, floor.secret_link`);
}

/** A secret, with all that its statements name. */
export interface FloorSecret {
  readonly id: string;
  readonly organizationId: string;
  readonly configId: string;
  readonly linkId: string;
}

export async function floorSecrets(pool: pg.Pool): Promise<FloorSecret[]> {
  const { rows } = await pool.query<FloorSecret>(
    `select s.id, s.organization_id as "organizationId", s.rotation_config_id as "configId", l.id as "linkId"
     from floor.secret s join floor.secret_link l on l.secret_id = s.id order by random()`,
  );
  return rows;
}

const lockSecret = ({ id }: FloorSecret) => ({
  name: "locked secret",
  text: "select key, environment, status, version, metadata from floor.secret where id = $1 for update",
  values: [id],
});

const readConfig = ({ configId }: FloorSecret) => ({
  name: "config",
  text: `select provider, provider_settings, credentials, candidate, candidate_attempts, unresolved, earlier_candidates
    from floor.rotation_config where id = $1`,
  values: [configId],
});

const readKey = ({ id }: FloorSecret) => ({
  name: "key",
  text: "select wrapped from floor.secret where id = $1",
  values: [id],
});

const readValue = ({ id }: FloorSecret) => ({
  name: "value",
  text: "select sealed, wrapped from floor.secret where id = $1",
  values: [id],
});

const taskRow = ({ id, configId, organizationId }: FloorSecret, taskId: string, status: string) => ({
  name: "task",
  text: `insert into floor.gateway_task (id, organization_id, type, status, config_id, secret_id, max_attempts, requested_by)
    values ($1, $2, 'rotate_secret', $3, $4, $5, 1, 'system') on conflict do nothing`,
  values: [taskId, organizationId, status, configId, id],
});

const startTask = (taskId: string) => ({
  name: "start",
  text: `update floor.gateway_task set status = 'running', claim_id = $2, claimed_at = now(),
    deadline_at = now() + interval '30 seconds' where id = $1 and status = 'pending'`,
  values: [taskId, randomUUID()],
});

const endTask = (taskId: string) => ({
  name: "end",
  text: "update floor.gateway_task set status = 'succeeded', finished_at = now() where id = $1 and status = 'running'",
  values: [taskId],
});

const noteQueued = ({ configId }: FloorSecret) => ({
  name: "queued",
  text: "update floor.rotation_config set last_status = 'running' where id = $1",
  values: [configId],
});

const keepCandidate = ({ configId }: FloorSecret) => ({
  name: "candidate",
  text: "update floor.rotation_config set candidate = $2, candidate_attempts = 1 where id = $1",
  values: [configId, candidate],
});

const noteRotated = ({ configId }: FloorSecret, taskId: string) => ({
  name: "rotated",
  text: `with config as (
      update floor.rotation_config set last_status = 'succeeded', candidate = null, candidate_attempts = 0 where id = $1)
    update floor.gateway_task set version = 2 where id = $2`,
  values: [configId, taskId],
});

const writeSecret = ({ id }: FloorSecret) => ({
  name: "version of secret",
  text: `update floor.secret set version = version + 1, updated_at = now(), last_rotated = now(),
    rotation_due_at = now() + interval '30 days', next_rotation = now() + interval '30 days' where id = $1`,
  values: [id],
});

const candidate = Buffer.alloc(61, 1);

/** What a rotation ends with, whoever applied its value. */
const commitOf = (secret: FloorSecret, taskId: string) => [
  readKey(secret),
  versionRow(randomUUID()),
  noteRotated(secret, taskId),
  writeSecret(secret),
  auditRow("secret.rotate"),
];

/** The statements, between BEGIN and COMMIT, of a rotation of which nobody has to be told. */
export function rotation(secret: FloorSecret): pg.QueryConfig[] {
  const taskId = randomUUIDv7();
  return [lockSecret(secret), readConfig(secret), taskRow(secret, taskId, "succeeded"), ...commitOf(secret, taskId)];
}

/** Of one that a webhook is told of: the transactions that queue it and begin it, and the one that follows what it is told. */
export function toldRotation(secret: FloorSecret) {
  const taskId = randomUUIDv7();
  const queue = [taskRow(secret, taskId, "pending"), lockSecret(secret), readConfig(secret), noteQueued(secret)];
  const begin = [startTask(taskId), readConfig(secret), readValue(secret), keepCandidate(secret)];
  const end = [endTask(taskId), lockSecret(secret), readConfig(secret), ...commitOf(secret, taskId)];
  return { queue, begin, end };
}

/** Of bringing a value to where a link leads: the transactions before and after it. */
export const sync = ({ linkId }: FloorSecret) => ({
  begin: [
    {
      name: "claim link",
      text: `update floor.secret_link l set status = 'syncing', claim_id = $2, claimed_version = s.version,
          due_at = now() + interval '40 seconds' from floor.secret s where l.id = $1 and s.id = l.secret_id
        returning l.config, l.credentials, s.key, s.sealed, s.wrapped`,
      values: [linkId, randomUUID()],
    },
  ],
  end: [
    {
      name: "synced",
      text: `update floor.secret_link set status = 'synced', claim_id = null, claimed_version = null, due_at = null,
        version = 1, last_synced = now() where id = $1`,
      values: [linkId],
    },
    auditRow("secret.sync"),
  ],
});
