import { type Verdict, verdictOf } from "../../standards/cipher-policy.ts";
import { conflict } from "../errors.ts";
import type { Logger } from "../logging.ts";
import type { Call } from "../wire/call.ts";
import { readRules } from "./cipher-policies.ts";
import { lockKeytab } from "./find-keytab.ts";
import { verdictSql } from "./verdict-sql.ts";

/** A statement must end within the time limit of the pool, also where rows are many and the database is busy. */
const batchSize = 5000;

/** Checks one keytab, by either form of its id, against the policy of the moment, and keeps the verdict. */
export async function checkCompliance(call: Call, id: string): Promise<Verdict> {
  const keytab = await lockKeytab(call, id);
  const { encryptionTypes, cipherCompliance: before } = keytab;
  const verdict = verdictOf(encryptionTypes, await readRules(call, call.caller.organizationId));
  keytab.keepVerdict(call.now, verdict.compliance);
  call.about({ details: { before, after: verdict.compliance } });
  return verdict;
}

/** How many keytabs were checked, and of how many the verdict changed. */
interface Refreshed {
  readonly evaluated: number;
  readonly updated: number;
}

interface Batch extends Refreshed {
  /** Where the batch ended, in the order of the index; null when it is empty. */
  readonly last_created_at: string | null;
  readonly last_id: string | null;
}

/**
 * The next batch. Of its rows, those whose verdict changes are locked, in one order, and written; the verdict is of the
 * row as it is once it is locked.
 */
const refreshBatch = `with batch as (
    select id, created_at, ${verdictSql("encryption_types", "$2", "$3")} <> cipher_compliance as differs
    from keytab where organization_id = $1 and deleted_at is null and (created_at, id) > ($4, $5)
    order by created_at, id limit $6),
  differing as (
    select k.id from keytab k join batch using (id) where batch.differs order by k.created_at, k.id for no key update of k),
  changed as (
    update keytab k set cipher_compliance = ${verdictSql("k.encryption_types", "$2", "$3")}, updated_at = $7
    from differing where k.id = differing.id and k.deleted_at is null
      and k.cipher_compliance <> ${verdictSql("k.encryption_types", "$2", "$3")}
    returning k.id),
  last as (select created_at, id from batch order by created_at desc, id desc limit 1)
  select (select count(*)::int from batch) as evaluated, (select count(*)::int from changed) as updated,
    (select created_at from last) as last_created_at, (select id from last) as last_id`;

/**
 * Checks all keytabs of the caller's organization against the policy of the moment, in the call's transaction; the log
 * says how far it is. Refused while another refresh of the organization runs.
 */
export async function refreshCompliance(call: Call, logger: Logger): Promise<Refreshed> {
  const { organizationId } = call.caller;
  await requireOnlyRefresh(call);
  const { allowed, deprecated } = await readRules(call, organizationId);
  let refreshed: Refreshed = { evaluated: 0, updated: 0 };
  let after = ["-infinity", "00000000-0000-0000-0000-000000000000"];
  for (;;) {
    const values = [organizationId, [...allowed], [...deprecated], ...after, batchSize, call.now];
    const [batch] = await call.query<Batch>(refreshBatch, values);
    if (batch === undefined || batch.last_id === null || batch.last_created_at === null) break;
    after = [batch.last_created_at, batch.last_id];
    refreshed = { evaluated: refreshed.evaluated + batch.evaluated, updated: refreshed.updated + batch.updated };
    logger.info(
      { request_id: call.source.requestId, organization_id: organizationId, ...refreshed },
      "keytabs checked",
    );
  }
  call.about({ details: { ...refreshed } });
  return refreshed;
}

async function requireOnlyRefresh(call: Call): Promise<void> {
  const [lock] = await call.query<{ free: boolean }>(
    "select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as free",
    [`holdfast:refresh-compliance:${call.caller.organizationId}`],
  );
  if (lock?.free !== true) throw conflict("a refresh is in progress");
}
