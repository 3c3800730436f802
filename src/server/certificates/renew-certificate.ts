import { X509Certificate } from "node:crypto";
import type { Csr } from "../../standards/x509/csr.ts";
import { kindOf } from "../../standards/x509/key-pairs.ts";
import type { Core } from "../context.ts";
import { wrongState } from "../errors.ts";
import type { Work } from "../system-work.ts";
import type { OpenAuthority } from "./authority-key.ts";
import type { CertificateFields } from "./certificate-record.ts";
import { type SignedCertificate, signCertificate, storeCertificate } from "./issue-certificate.ts";
import { endOf, lengthOf, lifetimeOf } from "./lifetimes.ts";

/** What a successor may have of its own. */
interface Renewal {
  /** For another key. */
  readonly csr?: Csr | undefined;
  /** For another length. */
  readonly validityDays?: number | undefined;
}

/** Throws for a certificate that is not to be trusted, or has a successor already. */
export function requireRenewable({ revokedAt, renewedBy }: CertificateFields): void {
  if (revokedAt !== null) throw wrongState("the certificate is revoked");
  if (renewedBy !== null) throw wrongState(`the certificate was renewed already, by ${renewedBy}`);
}

/** Signs a successor of a certificate, by its authority and for its names. */
export function signSuccessor(
  core: Pick<Core, "statusUrl">,
  authority: OpenAuthority,
  certificate: CertificateFields,
  { csr, validityDays }: Renewal,
  now: Date,
): Promise<SignedCertificate> {
  const { id, projectId, subject, alternativeNames, profile, autoRenew } = certificate;
  const publicKey = csr?.publicKey ?? new X509Certificate(certificate.certificate).publicKey;
  const lifetime = lifetimeOf(validityDays, lengthOf(certificate));
  const draft = {
    projectId,
    subject,
    alternativeNames,
    publicKey,
    kind: kindOf(publicKey),
    profile,
    notAfter: endOf(lifetime, now, authority.notAfter),
    autoRenew,
    renewalOf: id,
  };
  return signCertificate(core, authority, draft, now);
}

/**
 * Stores the successor of a certificate, which is locked and renewable. It is what is renewed by itself from now on, if
 * anything is, and what is told of when its end comes near.
 */
export async function storeSuccessor(
  work: Pick<Work, "now" | "query">,
  certificate: CertificateFields,
  signed: SignedCertificate,
  createdBy: string,
): Promise<CertificateFields> {
  const { id, organizationId, projectId, autoRenew } = certificate;
  const successor = await storeCertificate(work, { ...signed, projectId, autoRenew }, createdBy);
  await work.query(
    `update certificate set renewed_by = $3, auto_renew = false, renew_at = null, expiring_at = null
     where id = $1 and organization_id = $2`,
    [id, organizationId, successor.id],
  );
  return successor;
}

/** For the audit log, beside the certificate that was renewed. */
export const renewalDetails = ({ id, caId, serialNumber, notAfter }: CertificateFields) => ({
  ca_id: caId,
  renewed_by: id,
  serial_number: serialNumber,
  not_after: new Date(notAfter).toISOString(),
});
