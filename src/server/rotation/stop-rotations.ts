import { type EntityManager, run } from "../db/database.ts";

/** Of which configuration. */
interface Stopped {
  readonly organizationId: string;
  readonly configId: string;
}

/**
 * Notes that rotations which were queued will not be: how the configurations stood before is how they stand again. What
 * an attempt before has left unresolved is to be looked at without waiting for anything else.
 */
export async function stopRotations(em: EntityManager, stopped: readonly Stopped[]): Promise<void> {
  if (stopped.length === 0) return;
  const values = [stopped.map(({ configId }) => configId), stopped.map(({ organizationId }) => organizationId)];
  const asked = `(select $1::uuid[] as ids, $2::uuid[] as organizations offset 0) as asked,
    unnest(asked.ids, asked.organizations) as q (config_id, organization_id)`;
  await run(
    em,
    `update secret s set rotation_due_at = now() from ${asked}, rotation_config c
     where c.id = q.config_id and c.organization_id = q.organization_id and s.id = c.secret_id and c.unresolved`,
    values,
  );
  await run(
    em,
    `update rotation_config c set last_status = case when c.consecutive_failures > 0 then 'failed'
       when s.last_rotated is not null then 'succeeded' else 'never' end
     from ${asked}, secret s
     where c.id = q.config_id and c.organization_id = q.organization_id and s.id = c.secret_id
       and c.last_status = 'running'`,
    values,
  );
}
