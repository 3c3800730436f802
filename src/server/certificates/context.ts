import type { Context } from "../context.ts";
import { Certificate, CertificateStatus } from "./certificate.ts";
import { CertificateAuthority, IssuerHash, OcspSigner } from "./certificate-authority.ts";
import { Crl, CrlPart } from "./crl.ts";

export const certificates: Context = {
  entities: [CertificateAuthority, IssuerHash, OcspSigner, CertificateStatus, Certificate, Crl, CrlPart],
  statistics: { total_certificates: "select count(*) from certificate" },
};
