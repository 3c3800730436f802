import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import type { Call } from "../wire/call.ts";
import { type CertificateFields, isRevoked, nameOf } from "./certificate-record.ts";
import { requestCrls } from "./crl-queue.ts";
import { findCertificate, lockCertificate } from "./find-certificate.ts";

/** One round trip for the status, which responders and lists go by, and for all that is not to happen any more. */
const revoke = `with s as (
    update certificate_status set revoked_at = $5, revocation_reason = $6
    where ca_id = $2 and serial_number = $3 and organization_id = $4)
  update certificate set auto_renew = false, renew_at = null, expiring_at = null where id = $1 and organization_id = $4`;

/**
 * SQL for certificates for the key of certificate $1 that belong to the same project, or to none as it does. Those of other
 * projects stay: whoever has the request of another one, which is no secret, could otherwise revoke what is not theirs.
 */
const ofTheKey = `from certificate c join certificate k
    on k.organization_id = c.organization_id and k.public_key_sha256 = c.public_key_sha256
      and k.project_id is not distinct from c.project_id
  where k.id = $1 and k.organization_id = $2`;

/** In one order, so that nobody waits for somebody who waits for them. */
const lockOfTheKey = `select c.id ${ofTheKey} order by c.id for no key update of c`;

const mostOfTheKey = 1000;

const revokeOfTheKey = `with c as (
    select c.id, c.ca_id, c.serial_number, c.subject, c.subject_alternative_names ${ofTheKey}
      and c.id <> $1 and c.not_after > now() and not ${isRevoked} limit ${mostOfTheKey}),
  s as (
    update certificate_status s set revoked_at = $3, revocation_reason = 'key_compromise'
    from c where s.ca_id = c.ca_id and s.serial_number = c.serial_number),
  ended as (
    update certificate u set auto_renew = false, renew_at = null, expiring_at = null from c where u.id = c.id)
  select c.id, c.ca_id as "caId", c.serial_number as "serialNumber", c.subject,
    c.subject_alternative_names as "alternativeNames" from c`;

/**
 * Revokes a certificate in the call's transaction. One that is revoked, be it with its authority, stays as it is, but that
 * any reason may become key_compromise; with that go the other certificates of the project for the same key.
 */
export async function revokeCertificate(call: Call, id: string, reason: RevocationReason): Promise<CertificateFields> {
  const isOfTheKey = reason === "key_compromise";
  if (isOfTheKey) await call.query(lockOfTheKey, [id, call.caller.organizationId]);
  const certificate = isOfTheKey ? await findCertificate(call, id) : await lockCertificate(call, id);
  const { caId, serialNumber, revokedAt, revocationReason } = certificate;
  const isDone = isOfTheKey ? revocationReason === reason : revokedAt !== null;
  const toldReason = isDone ? revocationReason : reason;
  call.about({ details: { ca_id: caId, serial_number: serialNumber, reason: toldReason } });
  const revoked = isDone ? certificate : await revokeOne(call, certificate, reason);
  const others = isOfTheKey ? await revokeOthersOfTheKey(call, certificate) : [];
  const caIds = new Set([...(isDone ? [] : [caId]), ...others]);
  if (caIds.size > 0) await requestCrls(call.em, [...caIds]);
  return revoked;
}

async function revokeOne(
  call: Call,
  certificate: CertificateFields,
  reason: RevocationReason,
): Promise<CertificateFields> {
  const { id, caId, serialNumber, organizationId, revokedAt } = certificate;
  const at = revokedAt === null ? call.now : new Date(Math.round(revokedAt));
  await call.query(revoke, [id, caId, serialNumber, organizationId, at, reason]);
  return { ...certificate, autoRenew: false, renewAt: null, revokedAt: at.getTime(), revocationReason: reason };
}

type Other = Pick<CertificateFields, "alternativeNames" | "caId" | "id" | "serialNumber" | "subject">;

/** Answers whose lists are to be built anew. */
async function revokeOthersOfTheKey(
  call: Call,
  { id, organizationId, projectId }: CertificateFields,
): Promise<readonly string[]> {
  const others = await call.query<Other>(revokeOfTheKey, [id, organizationId, call.now]);
  for (const { caId, serialNumber, ...other } of others) {
    const details = { ca_id: caId, serial_number: serialNumber, reason: "key_compromise", revoked_with: id };
    call.alsoRecord("certificate.revoke", {
      id: other.id,
      name: nameOf(other),
      ...(projectId !== null && { projectId }),
      details,
    });
  }
  return others.map(({ caId }) => caId);
}
