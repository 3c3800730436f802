import { CertificateAuthorityService as authorityDescriptor } from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { CertificateService as certificateDescriptor } from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type { Context } from "../context.ts";
import { Certificate, CertificateStatus } from "./certificate.ts";
import { CertificateAuthority, IssuerHash, OcspSigner } from "./certificate-authority.ts";
import { CertificateAuthorityService } from "./certificate-authority-service.ts";
import { CertificateService } from "./certificate-service.ts";
import { Crl, CrlPart } from "./crl.ts";
import { CrlBuilder } from "./crl-builder.ts";
import { expiringJob } from "./expiring.ts";
import { makesKeys } from "./key-making.ts";
import { making } from "./new-authority.ts";
import { signerRenewalJob } from "./ocsp-renewal.ts";
import { renewalJob } from "./renewals.ts";
import { signing } from "./signing.ts";

export const certificates: Context = {
  entities: [CertificateAuthority, IssuerHash, OcspSigner, CertificateStatus, Certificate, Crl, CrlPart],
  services(core) {
    const keys = makesKeys();
    return [
      {
        descriptor: authorityDescriptor,
        implementation: new CertificateAuthorityService(core),
        preparations: making(core, keys),
      },
      {
        descriptor: certificateDescriptor,
        implementation: new CertificateService(),
        preparations: signing(core, keys),
      },
    ];
  },
  jobs: (core) => [signerRenewalJob(core), renewalJob(core), expiringJob(core)],
  work: (core) => {
    const builder = new CrlBuilder(core);
    builder.start();
    return () => builder.stop();
  },
  statistics: { total_certificates: "select count(*) from certificate" },
};
