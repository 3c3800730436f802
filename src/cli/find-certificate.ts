import { CertificateAuthorityService } from "../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { CertificateService } from "../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type { Api } from "../client/api.ts";
import { allPages } from "../client/pages.ts";
import { isId, theOnly } from "./find.ts";

/** The id of the certificate authority of this name, or the id itself. */
export async function findAuthorityId(api: Api, reference: string): Promise<string> {
  if (isId(reference)) return reference;
  const service = api(CertificateAuthorityService);
  const found = await allPages((page) => service.listCertificateAuthorities({ search: reference, ...page }));
  const named = found.filter(({ name }) => name === reference);
  return theOnly(`certificate authority ${reference}`, named, ({ id }) => id, "say which by its id").id;
}

/** The id of the certificate with this serial number, in hexadecimal digits with or without colons, or the id itself. */
export async function findCertificateId(api: Api, reference: string): Promise<string> {
  if (isId(reference)) return reference;
  const { data } = await api(CertificateService).listCertificates({ serialNumber: reference });
  const describe = ({ id, caId }: { readonly id: string; readonly caId: string }) => `${id}  of authority ${caId}`;
  return theOnly(`certificate ${reference}`, data, describe, "say which by its id").id;
}
