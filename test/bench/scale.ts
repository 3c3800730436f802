import type pg from "pg";
import type { Effort } from "./options.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { get, httpSubject, medianRatio, medianRound, takeTurns, warmUp } from "./subjects.ts";
import { type Line, within } from "./table.ts";

const few = 1000;
/** So many of the many are read, all over the tables; the rest is only in the way. */
const readOfMany = 10_000;
const connections = 16;

/** Whether one secret of many costs what one of a few costs: two servers on two databases of one PostgreSQL take turns. */
export async function measureScale(stage: Stage, effort: Effort, tell: (text: string) => void): Promise<Line[]> {
  const http = stage.http();
  const small = await stage.holdfast("few");
  const large = await stage.holdfast("many");
  const fewIds = await small.api.secrets(await small.api.project("bench"), few);
  const projectId = await large.api.project("bench");
  const manyIds = await large.api.secrets(projectId, readOfMany);
  tell(`filling a database with ${effort.manySecrets} secrets`);
  await pad(await stage.superuser("many"), projectId, effort.manySecrets);
  const subject = ({ api, ...server }: Holdfast, name: string, ids: readonly string[]) => {
    const requests = shuffled(ids).map((id) => get(`/api/v1/secrets/${id}`, api.token));
    return httpSubject(name, server, http, { requests, expectedStatus: 200 });
  };
  const subjects = [subject(large, "many", manyIds), subject(small, "few", fewIds)];
  await warmUp(subjects, connections, effort);
  // The difference is small: more turns than elsewhere.
  const turns = { ...effort, rounds: 2 * effort.rounds + 1 };
  const [many = [], others = []] = await takeTurns(subjects, connections, turns);
  const { perSecond, ...figures } = medianRound(many);
  await Promise.all([small.stop(), large.stop()]);
  return [
    {
      scenario: `read one of ${effort.manySecrets}`,
      connections,
      figure: medianRatio(many, others, "perSecond"),
      target: within(0.15),
      ours: perSecond,
      against: `one of ${few}`,
      theirs: medianRound(others).perSecond,
      ...figures,
    },
  ];
}

/**
 * Adds junk until there are so many secrets. All rows are written anew in the order of their ids, with times between
 * those of the real ones, so that the real ones lie far apart in tables and indexes.
 */
async function pad(database: pg.Client, projectId: string, total: number): Promise<void> {
  const tables = ["secret", "secret_version", "data_key"];
  const key = { secret: "id", secret_version: "secret_id", data_key: "record_id" } as Record<string, string>;
  await database.query("begin");
  await database.query("set local session_replication_role = replica; set local synchronous_commit = off");
  for (const table of tables) await database.query(`create temp table all_${table} on commit drop as table ${table}`);
  await database.query(`
    create temp table junk on commit drop as
      select encode(overlay(uuid_send(gen_random_uuid()) placing
        substring(int8send((earliest + (latest - earliest) * random())::bigint) from 3) from 1 for 6), 'hex')::uuid as id
      from generate_series(1, ${total - readOfMany}),
        (select min(extract(epoch from created_at)) * 1000 as earliest, max(extract(epoch from created_at)) * 1000 as latest
         from secret) as times`);
  const [organizationId] = (await database.query<{ id: string }>("select id from organization")).rows.map(
    ({ id }) => id,
  );
  const junk: Record<string, string> = {
    secret: `(id, organization_id, project_id, key, key_environment, type, description, tags, metadata, status, version,
        created_by, created_at, updated_at, rotation_enabled)
      select id, '${organizationId}', '${projectId}', 'junk-' || id, '', 'generic', '', '{}', '{}', 'active', 1, 'bench',
        now(), now(), false from junk`,
    secret_version: `(secret_id, version, organization_id, sealed, created_at, created_by, change_type, change_reason)
      select id, 1, '${organizationId}', uuid_send(id) || uuid_send(id) || uuid_send(id), now(), 'bench', 'initial', ''
      from junk`,
    data_key: `(record_id, organization_id, wrapped)
      select id, '${organizationId}', uuid_send(id) || uuid_send(id) || uuid_send(id) || uuid_send(id) from junk`,
  };
  await database.query(`truncate ${tables.join(", ")}`);
  for (const table of tables) {
    await database.query(`insert into all_${table} ${junk[table]}`);
    await database.query(`insert into ${table} select * from all_${table} order by ${key[table]}`);
  }
  await database.query("commit");
  for (const table of tables) await database.query(`vacuum (analyze) ${table}`);
  await database.query("checkpoint");
}

function shuffled<T>(items: readonly T[]): T[] {
  const all = [...items];
  for (let at = all.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [all[at], all[other]] = [all[other] as T, all[at] as T];
  }
  return all;
}
