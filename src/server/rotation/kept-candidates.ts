import type { KeyObject } from "node:crypto";
import { type EntityManager, run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import type { Work } from "../system-work.ts";
import type { Candidates } from "./candidates.ts";
import { candidatePlace, earlierCandidatesPlace } from "./rotation-places.ts";

/** Which configuration, and whose key seals. */
interface Owner {
  readonly organizationId: string;
  readonly configId: string;
  readonly secretId: string;
}

/** Candidates as they are kept. */
export interface SealedCandidates {
  readonly candidate: Buffer | null;
  readonly candidateAttempts: number;
  readonly unresolved: boolean;
  /** A JSON array. */
  readonly earlierCandidates: Buffer | null;
}

/** The columns of SealedCandidates, of the configuration in `c`. */
export const candidateColumns = `c.candidate, c.candidate_attempts as "candidateAttempts", c.unresolved,
  c.earlier_candidates as "earlierCandidates"`;

/** Opens what is kept. `key` is the secret's own. Throws SealBroken. */
export function openCandidates(seal: Seal, key: KeyObject, owner: Owner, kept: SealedCandidates): Candidates {
  const { candidate, candidateAttempts, unresolved, earlierCandidates: earlier } = kept;
  return {
    candidate: candidate === null ? undefined : seal.open(key, candidatePlace(owner), candidate).toString(),
    attempts: candidateAttempts,
    unresolved,
    earlier: earlier === null ? [] : JSON.parse(seal.open(key, earlierCandidatesPlace(owner), earlier).toString()),
  };
}

/** Keeps candidates in a configuration that is locked. */
export async function keepCandidates(
  em: EntityManager,
  seal: Seal,
  key: KeyObject,
  owner: Owner,
  { candidate, attempts, unresolved, earlier }: Candidates,
): Promise<void> {
  await run(
    em,
    `update rotation_config set candidate = $3, candidate_attempts = $4, unresolved = $5, earlier_candidates = $6
     where id = $1 and organization_id = $2`,
    [
      owner.configId,
      owner.organizationId,
      candidate === undefined ? null : seal.seal(key, candidatePlace(owner), Buffer.from(candidate)),
      attempts,
      unresolved,
      earlier.length === 0 ? null : seal.seal(key, earlierCandidatesPlace(owner), Buffer.from(JSON.stringify(earlier))),
    ],
  );
}

/** Notes that nobody knows what the targets have, after attempts that others follow. */
export async function noteUnresolved(em: EntityManager, owners: readonly Omit<Owner, "secretId">[]): Promise<void> {
  if (owners.length === 0) return;
  await run(
    em,
    `update rotation_config c set unresolved = true
     from (select $1::uuid[] as ids, $2::uuid[] as organizations offset 0) as asked,
       unnest(asked.ids, asked.organizations) as q (id, organization_id)
     where c.id = q.id and c.organization_id = q.organization_id and not c.unresolved`,
    [owners.map(({ configId }) => configId), owners.map(({ organizationId }) => organizationId)],
  );
}

/**
 * Has the candidates follow a change of how values are made or applied, by one of the rules in candidates.ts, unless an
 * attempt is under way that may need them as they are.
 */
export async function reviseCandidates(
  work: Work,
  seal: Seal,
  owner: Owner,
  rule: (before: Candidates) => Candidates,
): Promise<void> {
  const before = await lockCandidates(work.em, owner);
  if (before === undefined) return;
  const key = await dataKeyOf(work, seal, { organizationId: owner.organizationId, id: owner.secretId });
  await keepCandidates(work.em, seal, key, owner, rule(openCandidates(seal, key, owner, before)));
}

/**
 * Locks the candidates of a configuration, and answers them; nothing when there are none, or when they are those of an
 * attempt that is under way: whoever makes it may have brought the candidate to the target already.
 */
async function lockCandidates(em: EntityManager, { configId, organizationId }: Owner) {
  const values = [configId, organizationId];
  const [kept] = await run<SealedCandidates>(
    em,
    `select ${candidateColumns} from rotation_config c
     where c.id = $1 and c.organization_id = $2 and (c.candidate is not null or c.unresolved or c.candidate_attempts > 0)
     for no key update`,
    values,
  );
  if (kept === undefined) return undefined;
  // Asked once the lock is held: whoever claims a task takes it too.
  const [running] = await run(
    em,
    `select from gateway_task where config_id = $1 and organization_id = $2 and type = 'rotate_secret'
       and status = 'running'`,
    values,
  );
  return running === undefined ? kept : undefined;
}
