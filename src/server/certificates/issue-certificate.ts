import { createHash, type KeyObject, randomUUIDv7 } from "node:crypto";
import type { AlternativeNames } from "../../standards/x509/alternative-names.ts";
import { issueLeaf, type Profile } from "../../standards/x509/certificates.ts";
import type { DistinguishedName } from "../../standards/x509/distinguished-name.ts";
import type { KeyKind } from "../../standards/x509/key-pairs.ts";
import { newSerialNumber } from "../../standards/x509/serial-number.ts";
import type { Core } from "../context.ts";
import type { Queries } from "../db/database.ts";
import { invalidField, referenceNotFound, wrongState } from "../errors.ts";
import type { Work } from "../system-work.ts";
import { type OpenAuthority, openAuthority } from "./authority-key.ts";
import type { CertificateFields } from "./certificate-record.ts";
import { beginOf, firstNotice, renewalTime } from "./lifetimes.ts";
import { pointersOf } from "./pointers.ts";

/** A certificate to be. */
export interface CertificateDraft {
  readonly projectId: string | null;
  readonly subject: DistinguishedName;
  readonly alternativeNames: AlternativeNames;
  readonly publicKey: KeyObject;
  readonly kind: KeyKind;
  readonly profile: Profile;
  readonly notAfter: Date;
  readonly autoRenew: boolean;
  /** The certificate that it succeeds. */
  readonly renewalOf: string | null;
}

/** A certificate that nobody has yet: it counts from when it is stored. */
export interface SignedCertificate extends CertificateDraft {
  readonly id: string;
  readonly authority: OpenAuthority;
  readonly serialNumber: string;
  readonly notBefore: Date;
  /** DER. */
  readonly certificate: Buffer;
}

/** An authority of the organization that may issue at this moment. Throws 404 for ca_id, and 409 for one that may not. */
export async function findIssuer(
  { seal }: Pick<Core, "seal">,
  queries: Queries,
  organizationId: string,
  caId: string,
): Promise<OpenAuthority> {
  const authority = await openAuthority(queries, seal, organizationId, caId);
  if (authority === undefined) throw referenceNotFound("ca_id", "certificate authority");
  if (authority.status !== "active") throw wrongState(`the certificate authority is ${authority.status}`);
  return authority;
}

/** Signs outside any transaction: what is not stored afterwards has never been issued, and leaves this process nowhere. */
export async function signCertificate(
  { statusUrl }: Pick<Core, "statusUrl">,
  authority: OpenAuthority,
  draft: CertificateDraft,
  now: Date,
): Promise<SignedCertificate> {
  const serialNumber = newSerialNumber();
  const notBefore = beginOf(now, authority.notBefore);
  const pointers = pointersOf(statusUrl, authority.id);
  const certificate = await issueLeaf(authority.issuer, { ...draft, serialNumber, notBefore }, pointers);
  return { ...draft, id: randomUUIDv7(), authority, serialNumber, notBefore, certificate };
}

/**
 * One round trip for a certificate and its status; nothing at all when its authority does not issue any more, the project
 * is not there, or its key is known to be compromised. An authority that is revoked at this very moment is not waited for:
 * what it issued is revoked with it, whenever that was.
 */
const insertCertificate = `with a as (
    select id from certificate_authority
    where id = $2 and organization_id = $3 and status = 'active' and not_after > now()),
  p as (select id from project where id = $4 and organization_id = $3 for key share),
  k as (
    select 1 from certificate c join certificate_status s on s.ca_id = c.ca_id and s.serial_number = c.serial_number
    where c.organization_id = $3 and c.public_key_sha256 = $12 and s.revocation_reason = 'key_compromise' limit 1),
  allowed as (
    select id as ca_id from a where ($4::uuid is null or exists (select from p)) and not exists (select from k)),
  s as (
    insert into certificate_status (ca_id, serial_number, organization_id, not_after)
    select ca_id, $5, $3, $14::timestamptz from allowed),
  c as (
    insert into certificate (id, organization_id, ca_id, project_id, serial_number, subject, subject_alternative_names,
      key_algorithm, key_size, profile, certificate, fingerprint_sha256, public_key_sha256, not_before, not_after,
      auto_renew, renewal_of, renew_at, expiring_at, created_by, created_at)
    select $1, $3, ca_id, $4::uuid, $5, $6::jsonb, $7::jsonb, $8, $9::int, $10, $11::bytea, $20, $12, $13::timestamptz,
      $14, $15::boolean, $16::uuid, $17::timestamptz, $18::timestamptz, $19, $21::timestamptz
    from allowed)
  select exists (select from a) as "isActive", exists (select from p) as "hasProject",
    exists (select from k) as "isCompromised"`;

interface Inserted {
  readonly isActive: boolean;
  readonly hasProject: boolean;
  readonly isCompromised: boolean;
}

/** Stores a certificate: from the commit of `work` on it is issued. */
export async function storeCertificate(
  work: Pick<Work, "now" | "query">,
  signed: SignedCertificate,
  createdBy: string,
): Promise<CertificateFields> {
  const { id, authority, projectId, serialNumber, subject, alternativeNames, kind, profile, certificate } = signed;
  const { notBefore, notAfter, autoRenew, renewalOf, publicKey } = signed;
  const { organizationId } = authority;
  const fingerprintSha256 = createHash("sha256").update(certificate).digest("hex");
  const renewAt = autoRenew ? renewalTime(notBefore, notAfter) : null;
  const [inserted] = await work.query<Inserted>(insertCertificate, [
    id,
    authority.id,
    organizationId,
    projectId,
    serialNumber,
    JSON.stringify(subject),
    JSON.stringify(alternativeNames),
    kind.algorithm,
    kind.size,
    profile,
    certificate,
    createHash("sha256")
      .update(publicKey.export({ format: "der", type: "spki" }))
      .digest(),
    notBefore,
    notAfter,
    autoRenew,
    renewalOf,
    renewAt,
    firstNotice(notAfter, work.now),
    createdBy,
    fingerprintSha256,
    work.now,
  ]);
  if (inserted?.isActive !== true) throw wrongState("the certificate authority issues nothing any more");
  if (projectId !== null && !inserted.hasProject) throw referenceNotFound("project_id", "project");
  if (inserted.isCompromised)
    throw invalidField("csr_pem", "must be for another key: this one is known to be compromised");
  return {
    id,
    organizationId,
    caId: authority.id,
    projectId,
    serialNumber,
    subject,
    alternativeNames,
    keyAlgorithm: kind.algorithm,
    keySize: kind.size,
    profile,
    certificate,
    fingerprintSha256,
    notBefore: notBefore.getTime(),
    notAfter: notAfter.getTime(),
    isOver: false,
    autoRenew,
    renewAt: renewAt?.getTime() ?? null,
    renewalOf,
    renewedBy: null,
    revokedAt: null,
    revocationReason: null,
    createdBy,
    createdAt: work.now.getTime(),
    issuer: Buffer.from(authority.issuer.certificate),
    issuerChainPem: authority.chainPem,
  };
}
