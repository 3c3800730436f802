import type { AlternativeNames } from "../../standards/x509/alternative-names.ts";
import type { Profile } from "../../standards/x509/certificates.ts";
import type { DistinguishedName } from "../../standards/x509/distinguished-name.ts";
import { toPem } from "../../standards/x509/pem.ts";
import { millis } from "../db/columns.ts";
import { timestampOf } from "../db/timestamp.ts";

/** What answers are made of: a row of `selectFields`. Times are in milliseconds since 1970. */
export interface CertificateFields {
  readonly id: string;
  readonly organizationId: string;
  readonly caId: string;
  readonly projectId: string | null;
  readonly serialNumber: string;
  readonly subject: DistinguishedName;
  readonly alternativeNames: AlternativeNames;
  readonly keyAlgorithm: string;
  readonly keySize: number;
  readonly profile: Profile;
  /** DER. */
  readonly certificate: Buffer;
  readonly fingerprintSha256: string;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly isOver: boolean;
  readonly autoRenew: boolean;
  readonly renewAt: number | null;
  readonly renewalOf: string | null;
  readonly renewedBy: string | null;
  readonly revokedAt: number | null;
  readonly revocationReason: string | null;
  readonly createdBy: string;
  readonly createdAt: number;
  /** The certificate of its authority, in DER. */
  readonly issuer: Buffer;
  /** PEM of the certificates above that. */
  readonly issuerChainPem: string;
}

/** SQL for what stands in the rows of certificate `c`'s status `s` and of its authority `a`. */
const standing = (column: string) => `(select ${column}
  from certificate_status s join certificate_authority a on a.id = s.ca_id
  where s.ca_id = c.ca_id and s.serial_number = c.serial_number)`;

/** SQL for whether certificate `c` is revoked: by itself, or with all that its authority issued. */
export const isRevoked = `exists (select from certificate_status s join certificate_authority a on a.id = s.ca_id
  where s.ca_id = c.ca_id and s.serial_number = c.serial_number and (s.revoked_at is not null or a.revoked_at is not null))`;

/** Columns of table certificate `c` as CertificateFields. */
export const selectFields = `c.id, c.organization_id as "organizationId", c.ca_id as "caId", c.project_id as "projectId",
  c.serial_number as "serialNumber", c.subject, c.subject_alternative_names as "alternativeNames",
  c.key_algorithm as "keyAlgorithm", c.key_size as "keySize", c.profile, c.certificate,
  c.fingerprint_sha256 as "fingerprintSha256", ${millis("c.not_before")} as "notBefore",
  ${millis("c.not_after")} as "notAfter", c.not_after <= now() as "isOver", c.auto_renew as "autoRenew",
  ${millis("c.renew_at")} as "renewAt", c.renewal_of as "renewalOf", c.renewed_by as "renewedBy",
  ${standing(millis("coalesce(s.revoked_at, a.revoked_at)"))} as "revokedAt",
  ${standing("case when s.revoked_at is null then a.revocation_reason else s.revocation_reason end")} as "revocationReason",
  c.created_by as "createdBy", ${millis("c.created_at")} as "createdAt",
  ${standing("a.certificate")} as issuer, ${standing("a.chain_pem")} as "issuerChainPem"`;

export type CertificateStatus = "active" | "expired" | "revoked";

/** How a certificate stands at this moment. */
export function statusOf({ revokedAt, isOver }: Pick<CertificateFields, "isOver" | "revokedAt">): CertificateStatus {
  if (revokedAt !== null) return "revoked";
  return isOver ? "expired" : "active";
}

/** What people know a certificate by. */
export function nameOf({ subject, alternativeNames: { dns, ip, email, uri } }: Named): string {
  return [subject.commonName, ...dns, ...ip, ...email, ...uri].find((name) => name !== "") ?? subject.organization;
}

type Named = Pick<CertificateFields, "alternativeNames" | "subject">;

/** PEM of the certificates above, from the issuer to the root. */
export const chainOf = ({ issuer, issuerChainPem }: CertificateFields): string =>
  toPem("CERTIFICATE", issuer) + issuerChainPem;

/** The record of a certificate (gaps 13.2). */
export const answerCertificate = (fields: CertificateFields) => ({
  id: fields.id,
  organizationId: fields.organizationId,
  caId: fields.caId,
  projectId: fields.projectId ?? undefined,
  status: statusOf(fields),
  serialNumber: fields.serialNumber,
  subject: fields.subject,
  subjectAlternativeNames: namesOf(fields),
  keyAlgorithm: fields.keyAlgorithm,
  keySize: fields.keySize,
  profile: fields.profile,
  fingerprintSha256: fields.fingerprintSha256,
  notBefore: timestampOf(fields.notBefore),
  notAfter: timestampOf(fields.notAfter),
  certificatePem: toPem("CERTIFICATE", fields.certificate),
  chainPem: chainOf(fields),
  autoRenew: fields.autoRenew,
  renewalOf: fields.renewalOf ?? undefined,
  renewedBy: fields.renewedBy ?? undefined,
  revokedAt: timestampOf(fields.revokedAt),
  revocationReason: fields.revocationReason ?? undefined,
  createdBy: fields.createdBy,
  createdAt: timestampOf(fields.createdAt),
});

const namesOf = ({ alternativeNames: { dns, ip, email, uri } }: CertificateFields) => ({
  dns: [...dns],
  ip: [...ip],
  email: [...email],
  uri: [...uri],
});
