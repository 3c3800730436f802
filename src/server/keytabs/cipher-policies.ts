import { type CipherRules, type PolicyTerms, rulesOf } from "../../standards/cipher-policy.ts";
import type { Queries } from "../db/database.ts";

/** A cipher policy as it is kept. */
export interface CipherPolicyFields extends PolicyTerms {
  readonly id: string;
  readonly organizationId: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/**
 * Until somebody decides otherwise: what a realm of this decade uses, with a warning of RC4, which most still hold
 * (RFC 8429). DES and 3DES are outside, and so is what nobody approved.
 */
const initialTerms: PolicyTerms = {
  allowedCiphers: [
    "aes256-cts-hmac-sha384-192",
    "aes128-cts-hmac-sha256-128",
    "aes256-cts-hmac-sha1-96",
    "aes128-cts-hmac-sha1-96",
    "arcfour-hmac",
  ],
  deprecatedCiphers: ["arcfour-hmac"],
  enforcementMode: "warn",
};

const columns = `id, organization_id as "organizationId", allowed_ciphers as "allowedCiphers", deprecated_ciphers as "deprecatedCiphers",
  enforcement_mode as "enforcementMode", created_at as "createdAt", updated_at as "updatedAt"`;

const selectPolicy = `select ${columns} from cipher_policy where organization_id = $1`;

/** The rules of an organization's policy, which is made on first use. */
export async function readRules(queries: Queries, organizationId: string): Promise<CipherRules> {
  return rulesOf(await readPolicy(queries, organizationId));
}

/** The policy of an organization, which is made on first use: of several who ask at once, one makes it for all. */
export async function readPolicy(queries: Queries, organizationId: string): Promise<CipherPolicyFields> {
  const found = await queries.query<CipherPolicyFields>(selectPolicy, [organizationId]);
  const [policy] = found.length > 0 ? found : await makePolicy(queries, organizationId);
  return policy as CipherPolicyFields;
}

async function makePolicy(queries: Queries, organizationId: string): Promise<CipherPolicyFields[]> {
  const { allowedCiphers, deprecatedCiphers, enforcementMode } = initialTerms;
  const made = await queries.query<CipherPolicyFields>(
    `insert into cipher_policy (organization_id, allowed_ciphers, deprecated_ciphers, enforcement_mode)
     values ($1, $2, $3, $4) on conflict (organization_id) do nothing returning ${columns}`,
    [organizationId, allowedCiphers, deprecatedCiphers, enforcementMode],
  );
  return made.length > 0 ? made : queries.query<CipherPolicyFields>(selectPolicy, [organizationId]);
}

/** Replaces the terms in a transaction; answers the policy as it was and as it is. Of two at once, the last one stays. */
export async function replacePolicy(
  queries: Queries,
  organizationId: string,
  { allowedCiphers, deprecatedCiphers, enforcementMode }: PolicyTerms,
): Promise<{ before: CipherPolicyFields; after: CipherPolicyFields }> {
  await readPolicy(queries, organizationId);
  const [before] = await queries.query<CipherPolicyFields>(`${selectPolicy} for update`, [organizationId]);
  const [after] = await queries.query<CipherPolicyFields>(
    `update cipher_policy set allowed_ciphers = $2, deprecated_ciphers = $3, enforcement_mode = $4, updated_at = now()
     where organization_id = $1 returning ${columns}`,
    [organizationId, allowedCiphers, deprecatedCiphers, enforcementMode],
  );
  return { before: before as CipherPolicyFields, after: after as CipherPolicyFields };
}
