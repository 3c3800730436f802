import type { KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";
import { type ChainEnd, organizationChainKey, sealOfEnd, startOfChain } from "../../standards/audit-chain.ts";
import type { Queries } from "../db/database.ts";

/** The end of a chain of an organization, in the hands of one writer at a time. */
export interface Lane extends ChainEnd {
  readonly organizationId: string;
  readonly key: KeyObject;
  length: number;
  hash: string;
}

interface OpenedChain {
  readonly organization_id: string;
  readonly number: number;
  readonly length: number;
  readonly hash: string;
  readonly seal: string;
}

/** Long before another process may take a chain for abandoned, this one does. */
const longestIdleMs = 10 * 60_000;
const abandonedAfter = "interval '20 minutes'";
const mostOrganizations = 1000;

/**
 * For each organization a chain that nobody has written to for long, else a new one. Nothing comes back where another
 * writer has just opened the number that would be next; who opens at the same moment waits for the other's commit.
 */
const openStatement = `
  with asked as (select distinct unnest($1::uuid[]) as organization_id),
    abandoned as (
      select c.organization_id, c.number from asked, lateral (
        select organization_id, number from audit_chain
        where organization_id = asked.organization_id and written_at < now() - ${abandonedAfter}
        order by number limit 1 for update skip locked) c),
    taken as (
      update audit_chain c set written_at = now() from abandoned a
      where c.organization_id = a.organization_id and c.number = a.number returning c.*),
    made as (
      insert into audit_chain (organization_id, number, length, head, seal)
      select organization_id, coalesce((select max(number) from audit_chain c where c.organization_id = asked.organization_id), 0) + 1,
        0, '', ''
      from asked where organization_id not in (select organization_id from abandoned)
      order by organization_id on conflict do nothing returning *)
  select organization_id, number, length, encode(head, 'hex') as hash, encode(seal, 'hex') as seal
  from (select * from taken union all select * from made) opened`;

/**
 * The chains that this process writes to. Writers at once write to chains of their own, so that none waits for another;
 * one after the other, they continue the same one.
 */
export class Lanes {
  readonly #installationKey: Buffer;
  readonly #free = new LRUCache<string, { readonly lane: Lane; readonly since: number }[]>({ max: mostOrganizations });

  constructor(installationKey: Buffer) {
    this.#installationKey = installationKey;
  }

  /** A lane for each organization, if one is free for each. */
  takeFree(organizationIds: ReadonlySet<string>): Map<string, Lane> | undefined {
    const lanes = this.#takeWhatIsFree(organizationIds);
    if (lanes.size === organizationIds.size) return lanes;
    this.giveBack(lanes.values());
    return undefined;
  }

  /** A lane for each organization; opens those that are missing in a transaction that writes to them. */
  async take(transaction: Queries, organizationIds: ReadonlySet<string>): Promise<Map<string, Lane>> {
    const lanes = this.#takeWhatIsFree(organizationIds);
    for (;;) {
      const missing = [...organizationIds].filter((organizationId) => !lanes.has(organizationId));
      if (missing.length === 0) return lanes;
      const opened = await transaction.query<OpenedChain>(openStatement, [missing]);
      for (const lane of opened.flatMap((chain) => this.#laneOf(chain) ?? [])) lanes.set(lane.organizationId, lane);
    }
  }

  /** Gives back lanes whose events are committed. Where that is not known a lane is not given back, and its chain abandoned. */
  giveBack(lanes: Iterable<Lane>): void {
    const since = performance.now();
    for (const lane of lanes) {
      const free = this.#free.get(lane.organizationId) ?? [];
      free.push({ lane, since });
      this.#free.set(lane.organizationId, free);
    }
  }

  #takeWhatIsFree(organizationIds: ReadonlySet<string>): Map<string, Lane> {
    const lanes = new Map<string, Lane>();
    for (const organizationId of organizationIds) {
      const lane = this.#takeFree(organizationId);
      if (lane !== undefined) lanes.set(organizationId, lane);
    }
    return lanes;
  }

  #takeFree(organizationId: string): Lane | undefined {
    const free = this.#free.get(organizationId);
    const last = free?.pop();
    if (last === undefined) return undefined;
    if (last.since > performance.now() - longestIdleMs) return last.lane;
    // The others have been idle for even longer.
    this.#free.delete(organizationId);
    return undefined;
  }

  /** Undefined for an end that none of us has written: it is left as it is, for the verification to find. */
  #laneOf({ organization_id: organizationId, number: chain, length, hash, seal }: OpenedChain): Lane | undefined {
    const key = organizationChainKey(this.#installationKey, organizationId);
    if (length === 0) return { organizationId, chain, key, length, hash: startOfChain(key, chain) };
    const isOurs = seal === sealOfEnd(key, { chain, length, hash });
    return isOurs ? { organizationId, chain, key, length, hash } : undefined;
  }
}
