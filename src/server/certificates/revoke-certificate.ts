import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import type { Call } from "../wire/call.ts";
import type { CertificateFields } from "./certificate-record.ts";
import { requestCrls } from "./crl-queue.ts";
import { lockCertificate } from "./find-certificate.ts";

/** One round trip for the status, which responders and lists go by, and for all that is not to happen any more. */
const revoke = `with s as (
    update certificate_status set revoked_at = $5, revocation_reason = $6
    where ca_id = $2 and serial_number = $3 and organization_id = $4)
  update certificate set auto_renew = false, renew_at = null, expiring_at = null where id = $1 and organization_id = $4`;

/**
 * Revokes a certificate in the call's transaction. One that is revoked, be it with its authority, stays as it is, but that
 * any reason may become key_compromise.
 */
export async function revokeCertificate(call: Call, id: string, reason: RevocationReason): Promise<CertificateFields> {
  const certificate = await lockCertificate(call, id);
  const { caId, serialNumber, organizationId, revokedAt, revocationReason } = certificate;
  call.about({ details: { ca_id: caId, serial_number: serialNumber, reason: revocationReason ?? reason } });
  if (revokedAt !== null && (reason !== "key_compromise" || revocationReason === reason)) return certificate;
  call.about({ details: { ca_id: caId, serial_number: serialNumber, reason } });
  const at = revokedAt === null ? call.now : new Date(Math.round(revokedAt));
  await call.query(revoke, [certificate.id, caId, serialNumber, organizationId, at, reason]);
  await requestCrls(call.em, [caId]);
  return { ...certificate, autoRenew: false, renewAt: null, revokedAt: at.getTime(), revocationReason: reason };
}
