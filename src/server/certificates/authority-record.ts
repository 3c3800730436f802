import type { MessageInitShape } from "@bufbuild/protobuf";
import type { NameConstraintsSchema } from "../../../gen/ts/holdfast/certificates/v1/names_pb.ts";
import type { DistinguishedName } from "../../standards/x509/distinguished-name.ts";
import { toPem } from "../../standards/x509/pem.ts";
import { timestampOf } from "../db/timestamp.ts";
import { pointersOf } from "./pointers.ts";

export type AuthorityStatus = "active" | "disabled" | "expired" | "revoked";

/** SQL for the status of table certificate_authority `a` as it is now. */
export const statusNow = `case when a.status = 'revoked' then 'revoked' when a.not_after <= now() then 'expired'
  else a.status end`;

/** What answers are made of: a row of `selectFields`. */
export interface AuthorityRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly type: "root" | "intermediate";
  /** Its own id for a root. */
  readonly parent_id: string;
  readonly status_now: AuthorityStatus;
  readonly subject: DistinguishedName;
  readonly serial_number: string;
  readonly key_algorithm: string;
  readonly key_size: number;
  readonly max_path_length: number | null;
  readonly name_constraints: MessageInitShape<typeof NameConstraintsSchema> | null;
  readonly certificate: Buffer;
  readonly chain_pem: string;
  readonly fingerprint_sha256: string;
  readonly not_before: string;
  readonly not_after: string;
  readonly revoked_at: string | null;
  readonly revocation_reason: string | null;
  readonly created_by: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Columns of table certificate_authority `a` as an AuthorityRow: all but the key. */
export const selectFields = `a.id, a.organization_id, a.name, a.type, a.parent_id, ${statusNow} as status_now, a.subject,
  a.serial_number, a.key_algorithm, a.key_size, a.max_path_length, a.name_constraints, a.certificate, a.chain_pem,
  a.fingerprint_sha256, a.not_before, a.not_after, a.revoked_at, a.revocation_reason, a.created_by, a.created_at,
  a.updated_at`;

/** What is told of an authority (gaps 13.1); `statusUrl` is where relying parties reach the responder. */
export function answerAuthority(row: AuthorityRow, statusUrl: string) {
  const { ocsp, crl } = pointersOf(statusUrl, row.id);
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    type: row.type,
    parentId: row.parent_id === row.id ? undefined : row.parent_id,
    status: row.status_now,
    subject: row.subject,
    serialNumber: row.serial_number,
    keyAlgorithm: row.key_algorithm,
    keySize: row.key_size,
    maxPathLength: row.max_path_length ?? undefined,
    nameConstraints: row.name_constraints ?? undefined,
    fingerprintSha256: row.fingerprint_sha256,
    notBefore: timestampOf(row.not_before),
    notAfter: timestampOf(row.not_after),
    certificatePem: toPem("CERTIFICATE", row.certificate),
    chainPem: row.chain_pem,
    ocspUrl: ocsp,
    crlUrl: crl,
    revokedAt: timestampOf(row.revoked_at),
    revocationReason: row.revocation_reason ?? undefined,
    createdBy: row.created_by,
    createdAt: timestampOf(row.created_at),
    updatedAt: timestampOf(row.updated_at),
  };
}
