import { type EntityManager, run } from "../db/database.ts";

/** Of which configuration. */
interface Stopped {
  readonly organizationId: string;
  readonly configId: string;
}

/** Notes that rotations which were queued will not be: how the configurations stood before is how they stand again. */
export async function stopRotations(em: EntityManager, stopped: readonly Stopped[]): Promise<void> {
  if (stopped.length === 0) return;
  await run(
    em,
    `update rotation_config c set candidate = null, last_status = case when c.consecutive_failures > 0 then 'failed'
       when s.last_rotated is not null then 'succeeded' else 'never' end
     from (select $1::uuid[] as ids, $2::uuid[] as organizations offset 0) as asked,
       unnest(asked.ids, asked.organizations) as q (config_id, organization_id), secret s
     where c.id = q.config_id and c.organization_id = q.organization_id and s.id = c.secret_id
       and c.last_status = 'running'`,
    [stopped.map(({ configId }) => configId), stopped.map(({ organizationId }) => organizationId)],
  );
}
