import type { KeyObject } from "node:crypto";
import { run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { addVersion } from "../secrets/add-version.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Call } from "../wire/call.ts";
import { usualSettings } from "./providers.ts";

/** A value that is in use at its target already, or needs no target. */
interface Rotated {
  readonly value: Uint8Array;
  readonly taskId: string;
  /** The id of an identity, or "system". */
  readonly requestedBy: string;
  readonly changeReason: string;
}

/**
 * Makes a value the next version of a secret, whose row is locked, and notes that the rotation succeeded. Answers the
 * version's number. `key` is the secret's own.
 */
export async function commitRotation(
  call: Call,
  seal: Seal,
  secret: Secret,
  key: KeyObject,
  { value, taskId, requestedBy, changeReason }: Rotated,
): Promise<number> {
  const version = await addVersion(call, seal, secret, key, {
    value,
    changeType: "rotation",
    createdBy: requestedBy,
    reason: changeReason,
  });
  secret.rotated(call.now);
  await run(
    call.em,
    `insert into rotation_config (id, organization_id, secret_id, provider_settings, last_status)
     values ($1, $2, $3, $4, 'succeeded')
     on conflict (id) do update set last_status = 'succeeded', candidate = null, consecutive_failures = 0,
       last_error_code = null, last_error_message = null, last_error_at = null`,
    [secret.rotationConfigId, secret.organizationId, secret.id, JSON.stringify(usualSettings)],
  );
  call.alsoRecord("secret.rotate", {
    id: secret.id,
    name: secret.key,
    projectId: secret.projectId,
    reason: changeReason,
    details: { version, config_id: secret.rotationConfigId, task_id: taskId, requested_by: requestedBy },
  });
  return version;
}
