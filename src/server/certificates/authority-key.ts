import { createPrivateKey, type KeyObject } from "node:crypto";
import type { Issuer } from "../../standards/x509/certificates.ts";
import type { NameConstraints } from "../../standards/x509/name-constraints.ts";
import { millis } from "../db/columns.ts";
import type { Queries } from "../db/database.ts";
import type { Place, Seal } from "../seal/seal.ts";
import { type AuthorityStatus, statusNow } from "./authority-record.ts";

/** An authority that can sign at this moment, whatever its status. */
export interface OpenAuthority {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** expired follows from the time. */
  readonly status: AuthorityStatus;
  readonly issuer: Issuer;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly maxPathLength: number | undefined;
  /** PEM of the certificates above it. */
  readonly chainPem: string;
  /** Its own and those of all authorities above it. */
  readonly nameConstraints: readonly NameConstraints[];
}

interface SealedAuthority {
  readonly name: string;
  readonly status: AuthorityStatus;
  readonly certificate: Buffer;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly maxPathLength: number | null;
  readonly chainPem: string;
  readonly nameConstraints: NameConstraints[];
  readonly sealedKey: Buffer;
  readonly wrapped: Buffer | null;
}

/** The key of a new authority as its rows keep it. */
export interface SealedKey {
  readonly sealedKey: Buffer;
  /** The wrapped key under which that is sealed. */
  readonly wrapped: Buffer;
}

/** Where the key of an authority is sealed to. It never changes. */
const keyPlace = (organizationId: string, recordId: string): Place => ({
  organizationId,
  kind: "certificate_authority.key",
  recordId,
  version: 1,
});

/** Seals the key of a new authority under a data key of its own. */
export async function sealKey(
  queries: Queries,
  seal: Seal,
  organizationId: string,
  id: string,
  privateKey: KeyObject,
): Promise<SealedKey> {
  const { key, wrapped } = await seal.createDataKey(queries, organizationId, id);
  const der = privateKey.export({ format: "der", type: "pkcs8" });
  const sealedKey = seal.seal(key, keyPlace(organizationId, id), der);
  der.fill(0);
  return { sealedKey, wrapped };
}

/** A root is its own parent, which is where the way up ends. */
const selectSealed = `with recursive line (id, parent_id, name_constraints) as (
    select id, parent_id, name_constraints from certificate_authority where id = $1 and organization_id = $2
    union all
    select a.id, a.parent_id, a.name_constraints
    from line l join certificate_authority a on a.id = l.parent_id and a.organization_id = $2
    where l.parent_id <> l.id)
  select a.name, ${statusNow} as status, a.certificate,
    ${millis("a.not_before")} as "notBefore", ${millis("a.not_after")} as "notAfter", a.max_path_length as "maxPathLength", a.chain_pem as "chainPem", a.sealed_key as "sealedKey", d.wrapped,
    (select coalesce(jsonb_agg(name_constraints), '[]') from line where name_constraints is not null) as "nameConstraints"
  from certificate_authority a left join data_key d on d.record_id = a.id and d.organization_id = a.organization_id
  where a.id = $1 and a.organization_id = $2`;

/** Opens the key of an authority of an organization; undefined when there is no such authority there. */
export async function openAuthority(
  queries: Queries,
  seal: Seal,
  organizationId: string,
  id: string,
): Promise<OpenAuthority | undefined> {
  const [row] = await queries.query<SealedAuthority>(selectSealed, [id, organizationId]);
  if (row === undefined) return undefined;
  const { name, status, certificate, chainPem, nameConstraints } = row;
  return {
    id,
    organizationId,
    name,
    status,
    issuer: { certificate, privateKey: await openKey(queries, seal, { ...row, id, organizationId }) },
    notBefore: new Date(Math.round(row.notBefore)),
    notAfter: new Date(Math.round(row.notAfter)),
    maxPathLength: row.maxPathLength ?? undefined,
    chainPem,
    nameConstraints,
  };
}

async function openKey(
  queries: Queries,
  seal: Seal,
  { id, organizationId, sealedKey, wrapped }: SealedAuthority & { id: string; organizationId: string },
): Promise<KeyObject> {
  if (wrapped === null) throw new Error(`certificate authority ${id} has no key`);
  const dataKey = await seal.dataKey(queries, organizationId, id, wrapped);
  const der = seal.open(dataKey, keyPlace(organizationId, id), sealedKey);
  try {
    return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  } finally {
    der.fill(0);
  }
}
