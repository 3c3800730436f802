import { randomUUIDv7 } from "node:crypto";
import { run } from "../db/database.ts";
import { duplicate } from "../errors.ts";
import type { Place, Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";
import { expireKey } from "./expiry.ts";
import { defaultIntervalDays } from "./secret.ts";
import type { SecretFields } from "./secret-record.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;

/** A secret to be, with its first value. */
export interface SecretDraft {
  readonly project: { readonly id: string; readonly keyScope: string };
  readonly key: string;
  readonly environment: string | null;
  readonly type: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly metadata: unknown;
  readonly ttlHours: number | undefined;
  readonly rotationEnabled: boolean;
  readonly rotationIntervalDays: number | undefined;
  readonly changeReason: string;
  readonly value: Buffer;
}

/** Where the value of a version is sealed to. */
export const valuePlace = (organizationId: string, recordId: string, version: number): Place => ({
  organizationId,
  kind: "secret.value",
  recordId,
  version,
});

/** One round trip for the secret, its key and its first version; nothing at all when the key is taken. */
const insertSecret = `with s as (
    insert into secret (id, organization_id, project_id, key, key_environment, environment, type, description, tags, metadata,
      created_by, created_at, updated_at, expires_at, rotation_enabled, rotation_interval_days, next_rotation)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14, $15, $16)
    on conflict (project_id, key_environment, key) where status <> 'deleted' do nothing returning id),
  k as (insert into data_key (record_id, organization_id, wrapped) select id, $2, $17 from s),
  v as (insert into secret_version (secret_id, version, organization_id, sealed, created_at, created_by, change_type, change_reason)
    select id, 1, $2, $18, $12, $11, 'initial', $19 from s)
  select count(*)::int as created from s`;

/** Stores a new secret in the call's transaction. Throws RESOURCE_CONFLICT when the project has the key already. */
export async function storeSecret(call: Call, seal: Seal, draft: SecretDraft): Promise<SecretFields> {
  const { em, now, caller } = call;
  const { organizationId } = caller;
  const id = randomUUIDv7();
  const { key, wrapped } = await seal.createDataKey(call, organizationId, id);
  const sealed = seal.seal(key, valuePlace(organizationId, id, 1), draft.value);
  const fields = fieldsOf(draft, id, caller.id, now);
  const keyEnvironment = keyEnvironmentOf(draft.project.keyScope, draft.environment);
  const values = [
    id,
    organizationId,
    draft.project.id,
    draft.key,
    keyEnvironment,
    draft.environment,
    draft.type,
    draft.description,
    fields.tags,
    JSON.stringify(draft.metadata ?? {}),
    caller.id,
    now,
    fields.expiresAt,
    fields.rotationEnabled,
    fields.rotationIntervalDays,
    fields.nextRotation,
    wrapped,
    sealed,
    draft.changeReason,
  ];
  const insert = async () => (await run<{ created: number }>(em, insertSecret, values))[0]?.created === 1;
  if (!(await insert())) {
    // The holder's life may be over: ended here, or by the sweep a moment ago.
    await expireKey(call, draft.project.id, keyEnvironment, draft.key);
    if (!(await insert())) throw duplicate("key", "already exists in this project");
  }
  return fields;
}

/** Under key_scope "environment" a key is unique within its environment (G-2.7). */
export const keyEnvironmentOf = (keyScope: string, environment: string | null) =>
  keyScope === "environment" ? (environment ?? "") : "";

function fieldsOf(draft: SecretDraft, id: string, createdBy: string, now: Date): SecretFields {
  const rotationIntervalDays = draft.rotationIntervalDays ?? (draft.rotationEnabled ? defaultIntervalDays : null);
  const after = (ms: number) => new Date(now.getTime() + ms);
  return {
    id,
    projectId: draft.project.id,
    key: draft.key,
    environment: draft.environment,
    type: draft.type,
    description: draft.description,
    tags: [...new Set(draft.tags)],
    metadata: draft.metadata ?? {},
    lifecycle: "active",
    version: 1,
    createdBy,
    createdAt: now,
    updatedAt: now,
    expiresAt: draft.ttlHours === undefined ? null : after(draft.ttlHours * hourMs),
    rotationEnabled: draft.rotationEnabled,
    rotationIntervalDays,
    nextRotation: draft.rotationEnabled ? after((rotationIntervalDays ?? defaultIntervalDays) * dayMs) : null,
  };
}
