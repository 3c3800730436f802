import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";
import { inSystemWork } from "../system-work.ts";
import { openAuthority } from "./authority-key.ts";
import { issueSigner } from "./ocsp-signers.ts";

interface Due {
  readonly id: string;
  readonly organizationId: string;
}

type RenewalCore = Pick<Core, "audit" | "db" | "logger" | "seal">;

const batchSize = 500;

/**
 * Whether authority `a` is to have another signer: all it has are past half their lives. One that lasts as long as the
 * authority is not followed by any.
 */
const isDue = `a.not_after > now() and not exists (
  select from ocsp_signer s where s.ca_id = a.id and s.not_after > now()
    and (s.not_after >= date_trunc('second', a.not_after) or s.not_before + (s.not_after - s.not_before) / 2 > now()))`;

/** Has a valid signer at hand for every authority that may need one, and forgets those that have ended. */
export function signerRenewalJob(core: RenewalCore): Job {
  return {
    name: "ocsp.renew_signers",
    schedule: "23 * * * *",
    async run() {
      const { renewed, failed } = await renewAll(core);
      const removed = await removeEnded(core);
      if (renewed + removed > 0) core.logger.info({ renewed, removed }, "OCSP signers renewed");
      if (failed > 0) throw new Error(`OCSP signers that could not be renewed: ${failed}`);
    },
  };
}

async function renewAll(core: RenewalCore): Promise<{ renewed: number; failed: number }> {
  const { db, logger } = core;
  let [renewed, failed] = [0, 0];
  for (let last = "00000000-0000-0000-0000-000000000000"; ; ) {
    const due = await db.query<Due>(
      `select a.id, a.organization_id as "organizationId" from certificate_authority a
       where a.id > $1 and ${isDue} order by a.id limit $2`,
      [last, batchSize],
    );
    for (const authority of due) {
      try {
        if (await renew(core, authority)) renewed += 1;
      } catch (err) {
        failed += 1;
        logger.error({ err, ca_id: authority.id }, "an authority has got no new OCSP signer");
      }
    }
    if (due.length < batchSize) return { renewed, failed };
    last = (due.at(-1) as Due).id;
  }
}

/** False when another replica does it, or has done it by now. */
async function renew(core: RenewalCore, { id, organizationId }: Due): Promise<boolean> {
  return inSystemWork(core, organizationId, async ({ em, now, query }) => {
    const locked = await query(
      "select from certificate_authority where id = $1 and organization_id = $2 for no key update skip locked",
      [id, organizationId],
    );
    if (locked.length === 0) return false;
    // Asked once the row is held: what a replica that held it before has issued is seen by now.
    const stillDue = await query(
      `select from certificate_authority a where a.id = $1 and a.organization_id = $2 and ${isDue}`,
      [id, organizationId],
    );
    if (stillDue.length === 0) return false;
    const authority = await openAuthority({ query }, core.seal, organizationId, id);
    if (authority === undefined) return false;
    await issueSigner(em, core.seal, authority, now);
    return true;
  });
}

/** Their keys go with them. */
async function removeEnded({ db }: RenewalCore): Promise<number> {
  let removed = 0;
  for (let batch = batchSize; batch === batchSize; removed += batch) {
    const ended = await asSystem(db, (em) => run(em, deleteEnded, [batchSize]));
    batch = ended.length;
  }
  return removed;
}

const deleteEnded = `with ended as (
    delete from ocsp_signer where id in (
      select id from ocsp_signer where not_after <= now() limit $1 for update skip locked)
    returning id),
  keys as (delete from data_key where record_id in (select id from ended))
  select from ended`;
