import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import { authorizeInProject, findProject } from "../auth/find-project.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { referenceNotFound, wrongState } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { fileOf } from "./certificate-file.ts";
import {
  answerCertificate,
  type CertificateFields,
  isRevoked,
  nameOf,
  selectFields,
  statusOf,
} from "./certificate-record.ts";
import { findCertificate, lockCertificate } from "./find-certificate.ts";
import { type SignedCertificate, storeCertificate } from "./issue-certificate.ts";
import { renewalTime } from "./lifetimes.ts";
import { renewalDetails, requireRenewable, storeSuccessor } from "./renew-certificate.ts";
import { revokeCertificate } from "./revoke-certificate.ts";
import type { Signed } from "./signing.ts";

/** SQL for whether certificate `c` is in a status. */
const isIn: Readonly<Record<string, string>> = {
  active: `c.not_after > now() and not ${isRevoked}`,
  expired: `c.not_after <= now() and not ${isRevoked}`,
  revoked: isRevoked,
};

const commonName = "c.subject->>'commonName'";
/** The host names of certificate `c` as JSON writes them, in whose punctuation no search may find itself. */
const hostNames = "(c.subject_alternative_names->'dns')::text";
const isInNoHostName = (search: string) => /[^\w.*-]/.test(search);

/** The methods of certificate_service.proto. `signing.ts` prepares those that issue. */
export class CertificateService implements ServiceImpl<typeof pb.CertificateService> {
  async issueCertificate(_: pb.IssueCertificateRequest, context: HandlerContext) {
    const call = callOf(context);
    const { signed, privateKey } = (await call.prepared) as Signed;
    const certificate = await storeCertificate(call, signed, call.caller.id);
    const { id, caId, projectId, serialNumber, profile, notAfter } = certificate;
    call.about({
      id,
      name: nameOf(certificate),
      ...(projectId !== null && { projectId }),
      details: { ca_id: caId, serial_number: serialNumber, profile, not_after: new Date(notAfter).toISOString() },
    });
    const privateKeyPem = privateKey?.export({ format: "pem", type: "pkcs8" }).toString();
    return { ...answerCertificate(certificate), privateKeyPem };
  }

  async listCertificates(request: pb.ListCertificatesRequest, context: HandlerContext) {
    const call = callOf(context);
    const { status, caId, projectId, serialNumber, expiresBefore, search = "", page, perPage } = request;
    const { organizationId } = call.caller;
    if (projectId !== undefined) await authorizeInProject(call, projectId);
    const where = new Conditions()
      .add("c.organization_id = ?", organizationId)
      .add("c.project_id = any(?)", call.visibleProjects)
      .add("c.project_id = ?", projectId)
      .add("c.ca_id = ?", caId)
      .add("c.not_after < ?", expiresBefore && timestampDate(expiresBefore))
      .contains(isInNoHostName(search) ? [commonName] : [commonName, hostNames], search);
    if (status !== undefined) where.require(isIn[status] as string);
    if (serialNumber !== undefined) {
      // By authorities, since serial numbers are looked up by an index that begins with them.
      where
        .add("c.ca_id in (select id from certificate_authority where organization_id = ?)", organizationId)
        .add("c.serial_number = ?", serialNumber.replaceAll(":", "").toLowerCase());
    }
    const from = "certificate c";
    const select = { columns: selectFields, from, where, orderBy: "c.created_at desc, c.id desc" };
    const { rows, pagination } = await fetchPage<CertificateFields>(call, select, { page, perPage });
    if (pagination.total === 0) await requireReferences(call, { projectId, caId });
    return { data: rows.map(answerCertificate), pagination };
  }

  async getCertificate({ id }: pb.GetCertificateRequest, context: HandlerContext) {
    return answerCertificate(await findCertificate(callOf(context), id));
  }

  async updateCertificate({ id, autoRenew }: pb.UpdateCertificateRequest, context: HandlerContext) {
    const call = callOf(context);
    const certificate = await lockCertificate(call, id);
    if (autoRenew === undefined) return answerCertificate(certificate);
    if (autoRenew) requireRenewable(certificate);
    if (autoRenew && statusOf(certificate) === "expired") throw wrongState("the certificate is expired");
    return answerCertificate(await setAutoRenew(call, certificate, autoRenew));
  }

  async renewCertificate({ id }: pb.RenewCertificateRequest, context: HandlerContext) {
    const call = callOf(context);
    const signed = (await call.prepared) as SignedCertificate;
    const certificate = await lockCertificate(call, id);
    requireRenewable(certificate);
    const successor = await storeSuccessor(call, certificate, signed, call.caller.id);
    call.about({ details: renewalDetails(successor) });
    return answerCertificate(successor);
  }

  async revokeCertificate({ id, reason = "unspecified" }: pb.RevokeCertificateRequest, context: HandlerContext) {
    return answerCertificate(await revokeCertificate(callOf(context), id, reason as RevocationReason));
  }

  async *downloadCertificate({ id, format = "pem" }: pb.DownloadCertificateRequest, context: HandlerContext) {
    const call = callOf(context);
    const { name, contentType, bytes, hash } = fileOf(await findCertificate(call, id), format);
    call.headers["content-disposition"] = `attachment; filename="${name}"`;
    call.headers["etag"] = `"${hash}"`;
    if (call.source.door === "rest") call.headers["content-length"] = String(bytes.length);
    yield { contentType, data: bytes };
  }
}

/** One that was given up is taken up again. */
async function setAutoRenew(
  call: Call,
  certificate: CertificateFields,
  autoRenew: boolean,
): Promise<CertificateFields> {
  const { id, organizationId, notBefore, notAfter } = certificate;
  if (autoRenew === certificate.autoRenew && (certificate.renewAt !== null) === autoRenew) return certificate;
  const renewAt = autoRenew ? renewalTime(new Date(notBefore), new Date(notAfter)) : null;
  await call.query("update certificate set auto_renew = $3, renew_at = $4 where id = $1 and organization_id = $2", [
    id,
    organizationId,
    autoRenew,
    renewAt,
  ]);
  call.about({ details: { auto_renew: autoRenew } });
  return { ...certificate, autoRenew, renewAt: renewAt?.getTime() ?? null };
}

/** Whether a list is empty because there is no such thing. */
async function requireReferences(
  call: Call,
  { projectId, caId }: { projectId: string | undefined; caId: string | undefined },
): Promise<void> {
  if (projectId !== undefined) await findProject(call, projectId, "project_id");
  if (caId === undefined) return;
  const found = await call.query("select 1 from certificate_authority where id = $1 and organization_id = $2", [
    caId,
    call.caller.organizationId,
  ]);
  if (found.length === 0) throw referenceNotFound("ca_id", "certificate authority");
}
