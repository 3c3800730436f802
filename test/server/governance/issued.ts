import { randomBytes } from "node:crypto";
import type { TestServer } from "../../harness/server.ts";

const serialNumber = () => `4${randomBytes(20).toString("hex").slice(1)}`;
const days = (count: number) => `now() + ${count * 24} * interval '1 hour'`;

interface Key {
  readonly algorithm?: string;
  readonly size?: number;
}

/** A row of an authority, as one that was created has it; its certificate is none. */
export async function newAuthority(
  server: TestServer,
  organizationId: string,
  name: string,
  {
    algorithm = "ECDSA",
    size = 256,
    status = "active",
    endsInDays = 3650,
  }: Key & { status?: string; endsInDays?: number } = {},
): Promise<string> {
  const [{ id }] = await server.sql(
    `insert into certificate_authority (id, parent_id, organization_id, name, type, status, subject, serial_number,
       key_algorithm, key_size, certificate, chain_pem, fingerprint_sha256, not_before, not_after, sealed_key, created_by)
     select i, i, $1, $2, 'root', $3, '{}', $4, $5, $6, '', '', '', ${days(endsInDays - 3650)}, ${days(endsInDays)}, '', 'test'
     from (select gen_random_uuid() as i) id returning id`,
    [organizationId, name, status, serialNumber(), algorithm, size],
  );
  return id;
}

interface Given extends Key {
  /** From five minutes before the issue until so many days after it. */
  readonly validDays?: number;
  readonly issuedDaysAgo?: number;
  readonly autoRenew?: boolean;
  readonly isRenewed?: boolean;
  readonly isRevoked?: boolean;
}

/** Rows of a certificate, likewise. An empty name is a subject without one; the serial number then is the name. */
export async function newCertificate(server: TestServer, caId: string, name: string, given: Given = {}) {
  const { algorithm = "ECDSA", size = 256, validDays = 90, issuedDaysAgo = 0 } = given;
  const { autoRenew = false, isRenewed = false, isRevoked = false } = given;
  const [certificate] = await server.sql(
    `insert into certificate (organization_id, ca_id, serial_number, subject, subject_alternative_names, key_algorithm,
       key_size, profile, certificate, fingerprint_sha256, public_key_sha256, not_before, not_after, auto_renew, renewed_by, created_by)
     select organization_id, id, $2, jsonb_build_object('commonName', $3::text), '{}', $4, $5, 'server', '', '', '',
       ${days(-issuedDaysAgo)} - interval '5 minutes', ${days(validDays - issuedDaysAgo)}, $6,
       case when $7 then gen_random_uuid() end, 'test'
     from certificate_authority where id = $1 returning id, serial_number`,
    [caId, serialNumber(), name, algorithm, size, autoRenew, isRenewed],
  );
  await server.sql(
    `insert into certificate_status (ca_id, serial_number, organization_id, not_after, revoked_at)
     select ca_id, serial_number, organization_id, not_after, case when $2 then now() end from certificate where id = $1`,
    [certificate.id, isRevoked],
  );
  return certificate as { id: string; serial_number: string };
}
