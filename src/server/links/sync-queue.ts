import { type EntityManager, run } from "../db/database.ts";
import type { Secret } from "../secrets/secret.ts";

/** Where the database says that something is due; the trigger of the table secret does too. Carries nothing. */
export const syncChannel = "holdfast_sync";

interface Selection {
  readonly linkId?: string;
  /** Of the links themselves, or else of the secret. */
  readonly environment?: string | undefined;
}

/**
 * Has links of an active secret written anew, soon and whatever they waited for, and answers how many. One that is being
 * written goes on and is written again after.
 */
export async function requeue(em: EntityManager, secret: Secret, only: Selection = {}): Promise<number> {
  const queued = await run(
    em,
    `update secret_link set status = case when claim_id is not null and status = 'syncing' then 'syncing' else 'pending' end,
       due_at = case when claim_id is null then now() else due_at end, again = claim_id is not null, failures = 0
     where secret_id = $1 and organization_id = $2 and sync_enabled and ($3::uuid is null or id = $3)
       and ($4::text is null or coalesce(environment, $5) = $4)
     returning id`,
    [secret.id, secret.organizationId, only.linkId ?? null, only.environment ?? null, secret.environment ?? null],
  );
  if (queued.length > 0) await wakeWorkers(em);
  return queued.length;
}

/** Tells the workers of all replicas, once the transaction has committed. */
export async function wakeWorkers(em: EntityManager): Promise<void> {
  await run(em, "select pg_notify($1, '')", [syncChannel]);
}

/** Takes a link whose sync is switched off out of the queue; what runs may end. */
export async function unqueue(em: EntityManager, organizationId: string, linkId: string): Promise<void> {
  await run(
    em,
    `update secret_link set status = 'disabled', due_at = case when claim_id is not null then due_at end, again = false
     where id = $1 and organization_id = $2`,
    [linkId, organizationId],
  );
}
