import { randomUUID } from "node:crypto";
import type pg from "pg";

// The tables of the floors: like the server's own, in a schema of their own, one row with all that a read needs.

const rows = 1000;
const perPage = 100;

/** Makes the tables and fills them as a project of 1,000 secrets; `database` was migrated by a server before. */
export async function createFloorTables(database: pg.Client): Promise<void> {
  await database.query(`
    create schema floor;
    create table floor.secret (like public.secret including all, sealed bytea not null, wrapped bytea not null);
    create table floor.secret_version (like public.secret_version including all);
    create table floor.audit_event (like public.audit_event including all);
    alter table floor.audit_event drop chain, drop sequence, drop previous_hash, drop hash`);
  const values = [rows, randomUUID(), randomUUID(), sealed];
  await database.query(
    `insert into floor.secret (organization_id, project_id, key, created_by, sealed, wrapped)
     select $2, $3, 'key-' || lpad(n::text, 6, '0'), 'bench', $4, $4 from generate_series(1, $1::int) n`,
    values,
  );
  await database.query("analyze floor.secret");
}

/** About as long as a sealed value or a wrapped key. */
const sealed = Buffer.alloc(61, 1);
const organizationId = randomUUID();
const actorId = randomUUID();
let projectId: string;

/** The ids of the rows to read, in no order. Call it before `listRows`. */
export async function floorIds(pool: pg.Pool): Promise<string[]> {
  const found = await pool.query<{ id: string; project_id: string }>(
    "select id, project_id from floor.secret where key like 'key-%' order by random() limit $1",
    [rows],
  );
  projectId = found.rows[0]?.project_id ?? "";
  return found.rows.map(({ id }) => id);
}

let turn = 0;

/** One after the other. */
export const pick = <T>(all: readonly T[]) => all[turn++ % all.length] as T;

const millis = (column: string) => `(extract(epoch from ${column}) * 1000)::float8 as ${column}`;
const columns = `id, project_id, key, environment, type, description, tags, status, version, ${millis("created_at")},
  ${millis("updated_at")}, ${millis("expires_at")}, rotation_enabled, ${millis("next_rotation")}`;
const moreColumns = `metadata, created_by, ${millis("archived_at")}, ${millis("deleted_at")}, rotation_interval_days,
  ${millis("last_rotated")}, sealed, wrapped`;

export const readRow = (id: string) => ({
  name: "read",
  text: `select ${columns}, ${moreColumns} from floor.secret where id = $1`,
  values: [id],
});

export const listRows = () => ({
  name: "list",
  text: `select ${columns} from floor.secret where project_id = $1 and status = 'active' order by key, id limit ${perPage}`,
  values: [projectId],
});

export const auditRow = (action: string) => ({
  name: "audit",
  text: `insert into floor.audit_event (organization_id, occurred_at, action, outcome, actor_type, actor_id, actor_name,
      resource_type, resource_id, resource_name, project_id, request_id, source_ip, user_agent, details)
    values ($1, now(), $2, 'success', 'machine_identity', $3, 'bench', 'secret', $4, 'key-000001', $1, $5, '127.0.0.1',
      null, '{"version":1}')`,
  values: [organizationId, action, actorId, randomUUID(), randomUUID()],
});

export const secretRow = (id: string) => ({
  name: "secret",
  text: `insert into floor.secret (id, organization_id, project_id, key, created_by, sealed, wrapped)
    values ($1, $2, $2, $3, $4, $5, $5)`,
  values: [id, organizationId, `new-${id}`, actorId, sealed],
});

export const versionRow = (id: string) => ({
  name: "version",
  text: `insert into floor.secret_version (secret_id, version, organization_id, sealed, created_by, change_type)
    values ($1, 1, $2, $3, $4, 'initial')`,
  values: [id, organizationId, sealed, actorId],
});
