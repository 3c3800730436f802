import { timestampOf } from "../db/timestamp.ts";

/** What may be said of a template. */
export interface TemplateTerms {
  readonly name: string;
  readonly description: string;
  readonly project_id: string | null;
  readonly rotation_interval_days: number | null;
  readonly lead_time_days: number | null;
  readonly grace_period_days: number | null;
  readonly secret_custody_mode: string;
  readonly is_default: boolean;
}

/** A row of table rotation_template. */
export interface TemplateRow extends TemplateTerms {
  readonly id: string;
  readonly organization_id: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** What is told of a template (gaps 5). */
export const answerTemplate = (row: TemplateRow) => ({
  id: row.id,
  organizationId: row.organization_id,
  name: row.name,
  description: row.description,
  projectId: row.project_id ?? undefined,
  rotationIntervalDays: row.rotation_interval_days ?? undefined,
  leadTimeDays: row.lead_time_days ?? undefined,
  gracePeriodDays: row.grace_period_days ?? undefined,
  secretCustodyMode: row.secret_custody_mode,
  isDefault: row.is_default,
  createdBy: row.created_by,
  createdAt: timestampOf(row.created_at),
  updatedAt: timestampOf(row.updated_at),
});
