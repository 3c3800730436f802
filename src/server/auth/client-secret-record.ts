import { timestampOf } from "../db/timestamp.ts";

/** The columns of `clientSecretColumns`. */
export interface ClientSecretRow {
  readonly id: string;
  readonly description: string;
  readonly prefix: string;
  readonly max_uses: number | null;
  readonly use_count: number;
  readonly revoked_at: string | null;
  readonly revoked_reason: string | null;
  readonly expires_at: string | null;
  readonly created_at: string;
  readonly expired: boolean;
}

/** Columns of table client_secret `c`; whether one has expired is judged by the database's clock. */
export const clientSecretColumns = `c.id, c.description, c.prefix, c.max_uses, c.use_count, c.revoked_at, c.revoked_reason,
  c.expires_at, c.created_at, coalesce(c.expires_at <= now(), false) as expired`;

/** The record of a client secret, without the secret. */
export function answerClientSecret(row: ClientSecretRow) {
  const usedUp = row.max_uses !== null && row.use_count >= row.max_uses;
  const status = row.revoked_at !== null ? "revoked" : row.expired ? "expired" : usedUp ? "used_up" : "active";
  return {
    id: row.id,
    description: row.description,
    prefix: row.prefix,
    maxUses: row.max_uses ?? undefined,
    useCount: row.use_count,
    status,
    revokedReason: row.revoked_reason ?? undefined,
    expiresAt: timestampOf(row.expires_at),
    createdAt: timestampOf(row.created_at),
  };
}
