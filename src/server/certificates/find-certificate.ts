import type { Queries } from "../db/database.ts";
import { notFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { type CertificateFields, nameOf, selectFields } from "./certificate-record.ts";

const selectCertificate = `select ${selectFields} from certificate c where c.id = $1 and c.organization_id = $2`;

/** A certificate of an organization, as it stands at this moment. */
export async function readCertificate(
  queries: Queries,
  organizationId: string,
  id: string,
): Promise<CertificateFields | undefined> {
  const [certificate] = await queries.query<CertificateFields>(selectCertificate, [id, organizationId]);
  return certificate;
}

/** A certificate of the caller's, where the caller may. */
export async function findCertificate(call: Call, id: string): Promise<CertificateFields> {
  const certificate = await readCertificate(call, call.caller.organizationId, id);
  if (certificate === undefined) throw notFound("certificate");
  const { projectId } = certificate;
  call.about({ id: certificate.id, name: nameOf(certificate), ...(projectId !== null && { projectId }) });
  call.authorizeIn(projectId);
  return certificate;
}

/** The same, locked: who changes one certificate takes turns. It is read anew once it is locked, its revocation too. */
export async function lockCertificate(call: Call, id: string): Promise<CertificateFields> {
  await call.query("select 1 from certificate where id = $1 and organization_id = $2 for no key update", [
    id,
    call.caller.organizationId,
  ]);
  return findCertificate(call, id);
}
