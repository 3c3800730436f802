import { type EntityManager, run } from "../db/database.ts";

/** An environment of an organization. */
export interface Environment {
  readonly organizationId: string;
  readonly environment: string;
}

/** Who holds an environment. */
export interface Holder {
  readonly gatewayId: string;
  readonly fencingToken: bigint;
}

/**
 * The Unix time in nanoseconds, or one more than the last token where the clock is behind (G-8.8). The clock is the
 * statement's: the expression stands twice in it and must give one value.
 */
const nextToken = `greatest((extract(epoch from statement_timestamp()) * 1000000)::bigint * 1000, last_token + 1)`;

interface Row {
  readonly holder_id: string | null;
  readonly fencing_token: string | null;
}

const holderOf = (row: Row | undefined): Holder | undefined =>
  row?.holder_id == null || row.fencing_token === null
    ? undefined
    : { gatewayId: row.holder_id, fencingToken: BigInt(row.fencing_token) };

/**
 * Locks an environment until the transaction ends, and answers who holds it. The first thing that a transaction does
 * that changes which gateway is active, or routes tasks: so these happen one after the other, and see what came before.
 */
export async function lockEnvironment(em: EntityManager, environment: Environment): Promise<Holder | undefined> {
  await addRow(em, environment);
  return holderOf(await readRow(em, environment, "for update"));
}

/**
 * Holds the environment as it is until the transaction ends, together with others who do, and answers who holds it. What
 * is routed to the holder, or written by it, is so before the next one takes over. Comes before locks of anything else.
 */
export async function shareEnvironment(em: EntityManager, environment: Environment): Promise<Holder | undefined> {
  const row = await readRow(em, environment, "for share");
  if (row !== undefined) return holderOf(row);
  // Without a row nothing would keep the first gateway from coming into service meanwhile.
  await addRow(em, environment);
  return holderOf(await readRow(em, environment, "for share"));
}

async function addRow(em: EntityManager, { organizationId, environment }: Environment): Promise<void> {
  await run(em, "insert into environment_lock (organization_id, environment) values ($1, $2) on conflict do nothing", [
    organizationId,
    environment,
  ]);
}

async function readRow(
  em: EntityManager,
  { organizationId, environment }: Environment,
  lock: "for share" | "for update",
): Promise<Row | undefined> {
  const [row] = await run<Row>(
    em,
    `select holder_id, fencing_token from environment_lock where organization_id = $1 and environment = $2 ${lock}`,
    [organizationId, environment],
  );
  return row;
}

/** Gives a locked environment to a gateway, under a new token. What carried the token before is refused from now on. */
export async function giveEnvironment(
  em: EntityManager,
  { organizationId, environment }: Environment,
  gatewayId: string,
): Promise<bigint> {
  const [row] = await run<{ fencing_token: string }>(
    em,
    `update environment_lock
     set holder_id = $3, fencing_token = ${nextToken}, last_token = ${nextToken}, acquired_at = now()
     where organization_id = $1 and environment = $2 returning fencing_token`,
    [organizationId, environment, gatewayId],
  );
  if (row === undefined) throw new Error(`the environment ${environment} is not locked`);
  return BigInt(row.fencing_token);
}

/** Takes a locked environment from whoever holds it. */
export async function releaseEnvironment(
  em: EntityManager,
  { organizationId, environment }: Environment,
): Promise<void> {
  await run(
    em,
    `update environment_lock set holder_id = null, fencing_token = null, acquired_at = null
     where organization_id = $1 and environment = $2`,
    [organizationId, environment],
  );
}
