import type { KeyObject } from "node:crypto";
import { run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { addVersion } from "../secrets/add-version.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Work } from "../system-work.ts";
import { usualSettings } from "./providers.ts";

/** A value that is in use at its target already, or needs no target. */
interface Rotated {
  readonly value: Uint8Array;
  readonly at: Date;
  readonly taskId: string;
  /** The id of an identity, or "system". */
  readonly requestedBy: string;
  readonly changeReason: string;
}

/** The target has the new value, so what it may have had is forgotten; the value before is marked with the end of its grace. */
const noteSuccess = `with config as (
    insert into rotation_config (id, organization_id, secret_id, provider_settings, last_status)
    values ($1, $2, $3, $4, 'succeeded')
    on conflict (id) do update set last_status = 'succeeded', candidate = null, candidate_attempts = 0,
      unresolved = false, earlier_candidates = null, consecutive_failures = 0, last_error_code = null,
      last_error_message = null, last_error_at = null
    returning grace_period_days),
  replaced as (
    update secret_version v set grace_ends_at = $5::timestamptz + make_interval(hours => 24 * config.grace_period_days)
    from config where v.secret_id = $3 and v.organization_id = $2 and v.version = $6 - 1)
  update gateway_task set version = $6 where id = $7 and organization_id = $2`;

/**
 * Makes a value the next version of a secret, whose row is locked, and notes that the rotation succeeded. Answers the
 * version's number. `key` is the secret's own.
 */
export async function commitRotation(
  work: Work,
  seal: Seal,
  secret: Secret,
  key: KeyObject,
  { value, at, taskId, requestedBy, changeReason }: Rotated,
): Promise<number> {
  const draft = { value, changeType: "rotation", createdBy: requestedBy, reason: changeReason } as const;
  const version = await addVersion({ em: work.em, now: at }, seal, secret, key, draft);
  secret.rotated(at);
  const { rotationConfigId, organizationId, id } = secret;
  await run(work.em, noteSuccess, [
    rotationConfigId,
    organizationId,
    id,
    JSON.stringify(usualSettings),
    at,
    version,
    taskId,
  ]);
  work.alsoRecord("secret.rotate", {
    id,
    name: secret.key,
    projectId: secret.projectId,
    reason: changeReason,
    details: { version, config_id: rotationConfigId, task_id: taskId, requested_by: requestedBy },
  });
  return version;
}
