import { defineEntity, p } from "@mikro-orm/core";
import { tenantFilter, time } from "../db/columns.ts";
import { CertificateAuthority } from "./certificate-authority.ts";

/** The revocation list of an authority: the one that was built last, and when the next one is due. */
export const Crl = defineEntity({
  name: "Crl",
  tableName: "crl",
  properties: {
    caId: () => p.manyToOne(CertificateAuthority).mapToPk().fieldName("ca_id").deleteRule("cascade").primary(),
    organizationId: p.uuid(),
    /** cRLNumber of the list that was built last; 0 before the first (RFC 5280 section 5.2.3). */
    number: p.bigint("number").default(0),
    thisUpdate: time().nullable(),
    nextUpdate: time().nullable(),
    /** How many bytes the DER has. */
    size: p.bigint("number").default(0),
    /** Hexadecimal digits. */
    sha256: p.text().default(""),
    entries: p.integer().default(0),
    /** When a list is to be built: a revocation makes it now; claimed_until during a build that has been asked nothing since. */
    dueAt: time(),
    /** Of whoever builds it at this moment. */
    claimId: p.uuid().nullable(),
    /** Before then nobody else builds it; once it was built, nobody at all. */
    claimedUntil: time().nullable(),
  },
  indexes: [{ name: "crl_due_at_index", properties: ["dueAt"] }],
  filters: tenantFilter,
});

/** A piece of a revocation list, in the order of `position`. Those of a list under way have its number to be. */
export const CrlPart = defineEntity({
  name: "CrlPart",
  tableName: "crl_part",
  properties: {
    caId: () => p.manyToOne(CertificateAuthority).mapToPk().fieldName("ca_id").deleteRule("cascade").primary(),
    number: p.bigint("number").primary(),
    position: p.integer().primary(),
    bytes: p.blob(),
  },
});
