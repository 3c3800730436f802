import type { KeyObject } from "node:crypto";
import { type Break, type ChainEnd, ChainVerifier, sealOfEnd } from "../../standards/audit-chain.ts";
import type { Queries } from "../db/database.ts";
import { conditionsOf, pagesInOrder } from "./event-pages.ts";
import { chainedEventOf } from "./event-rows.ts";

interface SealedEnd extends ChainEnd {
  readonly seal: string;
}

const endsStatement = `select number as chain, length, encode(head, 'hex') as hash, encode(seal, 'hex') as seal
  from audit_chain where organization_id = $1 order by number`;

/** What was found in the log of an organization. */
export interface Verification {
  readonly verifier: ChainVerifier;
  /** The first place that is not as it was written. */
  readonly broken: Break | undefined;
}

/**
 * Reads the whole log of an organization. The ends of the chains are read first: what is written while this runs
 * continues them.
 */
export async function verifyLog(
  queries: Queries,
  key: KeyObject,
  organizationId: string,
  signal: AbortSignal,
): Promise<Verification> {
  const readEnds = () => queries.query<SealedEnd>(endsStatement, [organizationId]);
  const ends = await readEnds();
  const verifier = new ChainVerifier(key, ends);
  for await (const rows of pagesInOrder(queries, conditionsOf({}, organizationId), organizationId)) {
    signal.throwIfAborted();
    for (const row of rows) verifier.add(chainedEventOf(row));
  }
  for (const end of ends) {
    if (end.seal !== sealOfEnd(key, end)) {
      verifier.note({ chain: end.chain, sequence: Math.max(1, end.length), reason: "changed" });
    }
  }
  const chains = new Set((await readEnds()).map(({ chain }) => chain));
  for (const { chain, length } of verifier.ends()) {
    if (!chains.has(chain)) verifier.note({ chain, sequence: length + 1, reason: "missing" });
  }
  return { verifier, broken: verifier.firstBreak() };
}
