import { randomUUIDv7 } from "node:crypto";
import { run } from "../db/database.ts";
import { duplicate, invalidField, referenceNotFound } from "../errors.ts";
import type { Place, Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";
import { expireKey } from "./expiry.ts";
import { dayMs, defaultIntervalDays, hourMs, type Secret } from "./secret.ts";
import type { SecretFields } from "./secret-record.ts";

const longestKey = 255;

/** A secret to be, with its first value. */
export interface SecretDraft {
  readonly projectId: string;
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

/**
 * One round trip for the secret, its key and its first version; nothing at all when the key is taken. The project is
 * held, so that it is not removed meanwhile and its key_scope stays what the key was made unique by.
 */
const insertSecret = `with p as (
    select id, case key_scope when 'environment' then coalesce($5::text, '') else '' end as key_environment
    from project where id = $3 and organization_id = $2 for key share),
  s as (
    insert into secret (id, organization_id, project_id, key, key_environment, environment, type, description, tags, metadata,
      created_by, created_at, updated_at, expires_at, rotation_enabled, rotation_interval_days, next_rotation,
      rotation_due_at)
    select $1, $2, p.id, $4, p.key_environment, $5, $6, $7, $8, $9, $10, $11::timestamptz, $11, $12::timestamptz, $13, $14::int,
      $15::timestamptz, $15 from p
    on conflict (project_id, key_environment, key) where status <> 'deleted' do nothing returning id),
  k as (insert into data_key (record_id, organization_id, wrapped) select id, $2, $16 from s),
  v as (insert into secret_version (secret_id, version, organization_id, sealed, created_at, created_by, change_type, change_reason)
    select id, 1, $2, $17, $11, $10, 'initial', $18 from s)
  select p.key_environment, (select count(*)::int from s) as created from p`;

interface Inserted {
  readonly key_environment: string;
  readonly created: number;
}

/** Stores a new secret in the call's transaction. Refuses an unknown project, and a key that the project has already. */
export async function storeSecret(call: Call, seal: Seal, draft: SecretDraft): Promise<SecretFields> {
  const { em, now, caller } = call;
  const { organizationId } = caller;
  const id = randomUUIDv7();
  const { key, wrapped } = await seal.createDataKey(call, organizationId, id);
  const sealed = seal.seal(key, valuePlace(organizationId, id, 1), draft.value);
  const fields = fieldsOf(draft, id, caller.id, now);
  const values = [
    id,
    organizationId,
    draft.projectId,
    draft.key,
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
  const [first] = await run<Inserted>(em, insertSecret, values);
  if (first === undefined) throw referenceNotFound("project_id", "project");
  call.about({ projectId: draft.projectId });
  if (first.created === 1) return fields;
  // The holder's life may be over: ended here, or by the sweep a moment ago.
  await expireKey(call, draft.projectId, first.key_environment, draft.key);
  const [second] = await run<Inserted>(em, insertSecret, values);
  if (second?.created !== 1) throw duplicate("key", "already exists in this project");
  return fields;
}

/** A copy beside its source cannot have the same key: its environment tells the two apart (G-2.16). */
export function keyOfCopy(
  source: Secret,
  project: { id: string; keyScope: string },
  environment: string | null,
): string {
  const isBeside = project.id === source.projectId && project.keyScope === "project";
  if (!isBeside || environment === null) return source.key;
  const key = `${source.key}_${environment.toUpperCase().replaceAll(/[^A-Z0-9]/gu, "_")}`;
  if ([...key].length > longestKey)
    throw invalidField("key", `is needed: ${source.key}_… would be longer than ${longestKey} characters`);
  return key;
}

function fieldsOf(draft: SecretDraft, id: string, createdBy: string, now: Date): SecretFields {
  const rotationIntervalDays = draft.rotationIntervalDays ?? (draft.rotationEnabled ? defaultIntervalDays : null);
  const after = (ms: number) => new Date(now.getTime() + ms);
  return {
    id,
    projectId: draft.projectId,
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
