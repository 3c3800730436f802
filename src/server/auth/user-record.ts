import { timestampOf } from "../db/timestamp.ts";
import { type GrantRow, grantColumns, grantsOf } from "./bindings.ts";

/** The columns of `userColumns`. */
export interface UserRow extends GrantRow {
  readonly id: string;
  readonly organization_id: string;
  readonly username: string;
  readonly email: string | null;
  readonly display_name: string;
  readonly status: string;
  readonly rate_limit_per_minute: number | null;
  readonly enrollment_expires_at: string | null;
  readonly last_authenticated_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Columns of table user_account `u`: none of what a login needs. */
export const userColumns = `u.id, u.organization_id, u.username, u.email, u.display_name, u.status, u.rate_limit_per_minute,
  u.enrollment_expires_at, u.last_authenticated_at, u.created_at, u.updated_at, ${grantColumns("u")}`;

/** The record of a user, without the enrollment token. */
export const answerUser = (row: UserRow) => ({
  id: row.id,
  organizationId: row.organization_id,
  username: row.username,
  email: row.email ?? undefined,
  displayName: row.display_name,
  status: row.status,
  ...grantsOf(row),
  rateLimitPerMinute: row.rate_limit_per_minute ?? undefined,
  enrollmentExpiresAt: timestampOf(row.enrollment_expires_at),
  lastAuthenticatedAt: timestampOf(row.last_authenticated_at),
  createdAt: timestampOf(row.created_at),
  updatedAt: timestampOf(row.updated_at),
});
