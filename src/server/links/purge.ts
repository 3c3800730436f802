import { TargetError } from "../../targets/target-error.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { conflict, unavailable } from "../errors.ts";
import { asSystem } from "../jobs.ts";
import type { Call } from "../wire/call.ts";
import { attempt } from "./attempt.ts";
import { type ClaimedLink, claimedColumns, claimSeconds, type Unreported, unreportedEvents } from "./claims.ts";
import type { LinkRow } from "./link-record.ts";
import { Reach } from "./reach.ts";

/** A link that is to go together with what it wrote, claimed so that no worker writes that anew. */
export interface Purge extends ClaimedLink {
  /** When it was to be written. */
  readonly dueAt: string | null;
}

/**
 * Claims a link of a locked secret. Should nobody come back to it, the claim passes and the link goes on as before. Throws
 * ABORTED while it is being written.
 */
export async function beginPurge(call: Call, { id }: LinkRow): Promise<Purge> {
  const [purge] = await run<Purge & Unreported>(
    call.em,
    `with before as (
       select id, due_at, claimed_version from secret_link
       where id = $1 and organization_id = $2 and (claim_id is null or due_at <= now()) for no key update),
     claimed as (
       update secret_link l set claim_id = gen_random_uuid(), claimed_version = null,
         due_at = now() + make_interval(secs => $3)
       from before where l.id = before.id returning l.*)
     select ${claimedColumns}, before.due_at as "dueAt", before.claimed_version as "unreportedVersion",
       l.failures + 1 as attempt
     from claimed l join before on before.id = l.id join secret s on s.id = l.secret_id
     left join data_key k on k.record_id = s.id`,
    [id, call.caller.organizationId, claimSeconds],
  );
  if (purge === undefined) throw conflict("the link is being written at this moment");
  call.events.push(...unreportedEvents(purge));
  return purge;
}

/** Removes what the link wrote, and then the link. Throws SERVICE_UNAVAILABLE when it could not, and keeps the link. */
export async function finishPurge(core: Core, call: Call, purge: Purge, signal: AbortSignal): Promise<void> {
  const reach = new Reach(core);
  try {
    await attempt((aborted) => reach.remove(purge, aborted), signal);
  } catch (error) {
    const failure = error instanceof TargetError ? error : new TargetError("timed_out", "the caller did not wait");
    await keep(core, call, purge, failure);
    throw unavailable(`the purge failed: ${failure.message}; the link is kept`, error);
  }
  await remove(core, call, purge);
}

/** What may be gone there is written again, as the link says that it is there. */
async function keep({ db, audit }: Core, call: Call, purge: Purge, failure: TargetError): Promise<void> {
  await asSystem(db, async (em) => {
    await run(
      em,
      `update secret_link set claim_id = null, again = false,
         status = case when status in ('disabled', 'failed') or status = 'synced' and $5 then status else 'pending' end,
         due_at = case when status = 'disabled' or status = 'synced' and $5 then null
           when status = 'failed' then $4::timestamptz else now() end
       where id = $1 and organization_id = $2 and claim_id = $3`,
      [purge.id, purge.organizationId, purge.claimId, purge.dueAt, failure.unchanged],
    );
    await audit.record(em, [call.event("link.delete", "failure", { reason: failure.message })]);
  });
}

/** Throws ABORTED for a link that leads elsewhere by now. One that went with its secret is gone as it should be. */
async function remove({ db, audit }: Core, call: Call, { id, organizationId, claimId }: Purge): Promise<void> {
  await asSystem(db, async (em) => {
    const removed = await run(
      em,
      "delete from secret_link where id = $1 and organization_id = $2 and claim_id = $3 returning id",
      [id, organizationId, claimId],
    );
    if (removed.length === 0) {
      const [link] = await run(em, "select 1 from secret_link where id = $1 and organization_id = $2", [
        id,
        organizationId,
      ]);
      if (link !== undefined) throw conflict("the link was changed meanwhile");
      return;
    }
    await audit.record(em, [call.event("link.delete", "success")]);
  });
}
