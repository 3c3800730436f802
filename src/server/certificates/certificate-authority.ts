import { defineEntity, p } from "@mikro-orm/core";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";

/** A certificate authority. Its key is sealed under a data key of its own, whose record is the authority. */
export const CertificateAuthority = defineEntity({
  name: "CertificateAuthority",
  tableName: "certificate_authority",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    name: p.text(),
    type: p.enum(["root", "intermediate"] as const),
    /** Itself for a root: whoever issued the certificate keeps its status. */
    parentId: p.uuid(),
    /** That it is expired follows from not_after. */
    status: p.enum(["active", "disabled", "revoked"] as const).default("active"),
    subject: p.json(),
    serialNumber: p.text(),
    keyAlgorithm: p.text(),
    keySize: p.integer(),
    maxPathLength: p.integer().nullable(),
    nameConstraints: p.json().nullable(),
    /** DER. */
    certificate: p.blob(),
    /** PEM of the certificates above it, from its issuer to the root; empty for a root. */
    chainPem: p.text(),
    fingerprintSha256: p.text(),
    notBefore: time(),
    notAfter: time(),
    /** The private key in PKCS #8. */
    sealedKey: p.blob(),
    revokedAt: time().nullable(),
    revocationReason: p.text().nullable(),
    createdBy: p.text(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  uniques: [{ name: "certificate_authority_name_key", properties: ["organizationId", "name"] }],
  indexes: [{ name: "certificate_authority_parent_id_index", properties: ["parentId"] }],
  filters: tenantFilter,
});

/** By which hashes OCSP clients name an authority (RFC 6960 section 4.1.1): a row for each algorithm. */
export const IssuerHash = defineEntity({
  name: "IssuerHash",
  tableName: "issuer_hash",
  properties: {
    /** Of the subject of the authority's certificate, in DER. The length tells the algorithm. */
    nameHash: p.blob().primary(),
    /** Of the bits of its public key. */
    keyHash: p.blob().primary(),
    caId: () => p.manyToOne(CertificateAuthority).mapToPk().fieldName("ca_id").deleteRule("cascade"),
  },
});

/** A delegated responder certificate of an authority. Its key is sealed under a data key whose record is the signer. */
export const OcspSigner = defineEntity({
  name: "OcspSigner",
  tableName: "ocsp_signer",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    caId: () => p.manyToOne(CertificateAuthority).mapToPk().fieldName("ca_id").deleteRule("cascade"),
    /** DER. */
    certificate: p.blob(),
    /** The private key in PKCS #8. */
    sealedKey: p.blob(),
    notBefore: time(),
    notAfter: time(),
    createdAt: createdAt(),
  },
  indexes: [{ name: "ocsp_signer_ca_id_index", properties: ["caId", "notAfter"] }],
  filters: tenantFilter,
});
