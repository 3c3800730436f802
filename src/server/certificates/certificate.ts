import { defineEntity, p } from "@mikro-orm/core";
import { Project } from "../auth/project.ts";
import { createdAt, id, tenantFilter, time } from "../db/columns.ts";
import { CertificateAuthority } from "./certificate-authority.ts";

/**
 * What an authority says of a certificate that it issued: of every one, be it an authority's, a responder's or anybody's.
 * OCSP answers and revocation lists are made of these rows alone.
 */
export const CertificateStatus = defineEntity({
  name: "CertificateStatus",
  tableName: "certificate_status",
  properties: {
    caId: () => p.manyToOne(CertificateAuthority).mapToPk().fieldName("ca_id").deleteRule("cascade").primary(),
    /** Lower-case hexadecimal digits. */
    serialNumber: p.text().primary(),
    organizationId: p.uuid(),
    notAfter: time(),
    revokedAt: time().nullable(),
    revocationReason: p.text().nullable(),
  },
  indexes: [
    {
      // All that a revocation list says, so that a long one is read without the table, where its rows lie far apart.
      name: "certificate_status_crl_index",
      properties: ["caId", "serialNumber"],
      include: ["revokedAt", "notAfter", "revocationReason"],
      where: "revoked_at is not null",
    },
  ],
  filters: tenantFilter,
});

/** A certificate that somebody had issued. Whether it is revoked stands in certificate_status. */
export const Certificate = defineEntity({
  name: "Certificate",
  tableName: "certificate",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    caId: () => p.manyToOne(CertificateAuthority).mapToPk().fieldName("ca_id").deleteRule("cascade"),
    projectId: () => p.manyToOne(Project).mapToPk().fieldName("project_id").deleteRule("set null").nullable(),
    serialNumber: p.text(),
    subject: p.json(),
    subjectAlternativeNames: p.json(),
    keyAlgorithm: p.text(),
    keySize: p.integer(),
    profile: p.enum(["server", "client", "server_client"] as const),
    /** DER. */
    certificate: p.blob(),
    fingerprintSha256: p.text(),
    /** Of its SubjectPublicKeyInfo in DER: a key that was compromised is recognised by it. */
    publicKeySha256: p.blob(),
    notBefore: time(),
    notAfter: time(),
    autoRenew: p.boolean().default(false),
    renewalOf: p.uuid().nullable(),
    renewedBy: p.uuid().nullable(),
    /** When a successor is to be issued; null when none is, or no more. */
    renewAt: time().nullable(),
    /** When its end is next to be told of beforehand; null when nothing is left to tell. */
    expiringAt: time().nullable(),
    createdBy: p.text(),
    createdAt: createdAt(),
  },
  uniques: [{ name: "certificate_serial_number_key", properties: ["caId", "serialNumber"] }],
  indexes: [
    { name: "certificate_organization_id_index", properties: ["organizationId", "createdAt", "id"] },
    { name: "certificate_public_key_sha256_index", properties: ["organizationId", "publicKeySha256"] },
    { name: "certificate_project_id_index", properties: ["projectId"], where: "project_id is not null" },
    { name: "certificate_not_after_index", properties: ["organizationId", "notAfter"] },
    { name: "certificate_renew_at_index", properties: ["renewAt"], where: "renew_at is not null" },
    { name: "certificate_expiring_at_index", properties: ["expiringAt"], where: "expiring_at is not null" },
  ],
  filters: tenantFilter,
});
