import { randomUUIDv7 } from "node:crypto";
import { issueResponder } from "../../standards/x509/certificates.ts";
import { newKeyPair } from "../../standards/x509/key-pairs.ts";
import { newSerialNumber } from "../../standards/x509/serial-number.ts";
import { type EntityManager, run } from "../db/database.ts";
import type { Place, Seal } from "../seal/seal.ts";
import type { OpenAuthority } from "./authority-key.ts";
import { beginOf, dayMs, endOf } from "./lifetimes.ts";

/** Cut where the authority ends before. */
const lifetime = { ms: 30 * dayMs, isGiven: false };

const subject = {
  commonName: "OCSP responder",
  organization: "",
  organizationalUnit: "",
  country: "",
  state: "",
  locality: "",
};

/** Where the key of a signer is sealed to. It never changes. */
export const signerPlace = (organizationId: string, recordId: string): Place => ({
  organizationId,
  kind: "ocsp_signer.key",
  recordId,
  version: 1,
});

const insertSigner = `with s as (
    insert into ocsp_signer (id, organization_id, ca_id, certificate, sealed_key, not_before, not_after, created_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)),
  d as (insert into data_key (record_id, organization_id, wrapped) values ($1, $2, $9))
  insert into certificate_status (ca_id, serial_number, organization_id, not_after) values ($3, $10, $2, $7)`;

/**
 * Issues a new delegated responder certificate of an authority, in the transaction of `em`: for 30 days or as long as the
 * authority lasts, with a key of its own on P-256, which every client can verify, whatever the authority signs with.
 */
export async function issueSigner(em: EntityManager, seal: Seal, authority: OpenAuthority, now: Date): Promise<void> {
  const { id: authorityId, organizationId, issuer, notBefore, notAfter } = authority;
  const { publicKey, privateKey } = await newKeyPair({ algorithm: "ECDSA", size: 256 });
  const draft = {
    serialNumber: newSerialNumber(),
    subject,
    publicKey,
    notBefore: beginOf(now, notBefore),
    notAfter: endOf(lifetime, now, notAfter),
  };
  const certificate = await issueResponder(issuer, draft);
  const id = randomUUIDv7();
  const queries = { query: <Row>(text: string, values: readonly unknown[]) => run<Row>(em, text, values) };
  const { key, wrapped } = await seal.createDataKey(queries, organizationId, id);
  const pkcs8 = privateKey.export({ format: "der", type: "pkcs8" });
  const sealed = seal.seal(key, signerPlace(organizationId, id), pkcs8);
  pkcs8.fill(0);
  await run(em, insertSigner, [
    id,
    organizationId,
    authorityId,
    certificate,
    sealed,
    draft.notBefore,
    draft.notAfter,
    now,
    wrapped,
    draft.serialNumber,
  ]);
}
