import type { TargetErrorCode } from "../../targets/target-error.ts";
import { type AuditEvent, systemEvent } from "../audit/audit-writer.ts";
import type { ClaimedLink } from "./claims.ts";

/** Why an attempt failed, as anybody may know it. */
export interface SyncFailure {
  readonly code: TargetErrorCode;
  readonly message: string;
}

/** An attempt to write a version. */
export interface Attempt extends ClaimedLink {
  readonly version: number;
  /** Counted since the last success. */
  readonly attempt: number;
}

/** The audit event that each attempt leaves. */
export const syncEvent = (link: Attempt, failure?: SyncFailure): AuditEvent =>
  systemEvent({
    organizationId: link.organizationId,
    action: "secret.sync",
    outcome: failure === undefined ? "success" : "failure",
    resourceType: "secret",
    resourceId: link.secretId,
    resourceName: link.key,
    projectId: link.projectId,
    reason: failure?.message ?? null,
    details: {
      link_id: link.id,
      integration: link.integration,
      version: link.version,
      attempt: link.attempt,
      ...(failure === undefined ? {} : { error_code: failure.code }),
    },
  });
