import { type EntityManager, type Queries, run } from "../db/database.ts";

/**
 * Lets a new authority have a revocation list, in the transaction of `em` and after the authority's own row; the first
 * one is due at once.
 */
export async function beginCrl(em: EntityManager, organizationId: string, caId: string): Promise<void> {
  await run(em, "insert into crl (ca_id, organization_id, due_at) values ($1, $2, now())", [caId, organizationId]);
}

/**
 * Has the lists of authorities built anew, in the transaction of `em`: something that they issued was revoked. Best called
 * last in it: others who revoke what the same authority issued wait from here to the commit, and who builds a list too, so
 * that no list misses a revocation that nobody asks a further one for.
 */
export async function requestCrls(em: EntityManager, caIds: readonly string[]): Promise<void> {
  await run(
    em,
    `with requested as materialized (
       select ca_id from crl where ca_id = any($1::uuid[]) order by ca_id for no key update)
     update crl set due_at = now() from requested where crl.ca_id = requested.ca_id`,
    [caIds],
  );
}

/**
 * Has lists built anew that are due later than any is set to be: by a clock that was ahead, and has been set back since. What it
 * signed is of no use before its time.
 */
export async function requestMisdatedCrls(queries: Queries): Promise<void> {
  await queries.query("update crl set due_at = now() where due_at > now() + interval '24 hours 1 minute'", []);
}
