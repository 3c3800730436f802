import type { JsonObject } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { millis } from "../db/columns.ts";

type Time = Date | number;

/** What answers are made of: an entity has it, and so does a row of `selectFields`. */
export interface SecretFields {
  readonly id: string;
  readonly projectId: string;
  readonly key: string;
  readonly environment?: string | null | undefined;
  readonly type: string;
  readonly description: string;
  readonly tags: string[];
  readonly metadata: unknown;
  readonly lifecycle: string;
  readonly version: number;
  readonly createdBy: string;
  readonly createdAt: Time;
  readonly updatedAt: Time;
  readonly archivedAt?: Time | null | undefined;
  readonly deletedAt?: Time | null | undefined;
  readonly expiresAt?: Time | null | undefined;
  readonly rotationEnabled: boolean;
  readonly rotationIntervalDays?: number | null | undefined;
  readonly lastRotated?: Time | null | undefined;
  readonly nextRotation?: Time | null | undefined;
}

/** A secret whose life is over counts as deleted from that instant on (gaps 2.8). */
export const isExpired = "coalesce(s.expires_at <= now(), false)";

/** Columns of table secret `s` as SecretFields. */
export const selectFields = `s.id, s.project_id as "projectId", s.key, s.environment, s.type, s.description, s.tags, s.metadata,
  case when ${isExpired} then 'deleted' else s.status end as lifecycle, s.version, s.created_by as "createdBy",
  ${millis("s.created_at")} as "createdAt", ${millis("s.updated_at")} as "updatedAt",
  ${millis("s.archived_at")} as "archivedAt",
  ${millis(`case when ${isExpired} and s.deleted_at is null then s.expires_at else s.deleted_at end`)} as "deletedAt",
  ${millis("s.expires_at")} as "expiresAt", s.rotation_enabled as "rotationEnabled",
  s.rotation_interval_days as "rotationIntervalDays", ${millis("s.last_rotated")} as "lastRotated",
  ${millis("s.next_rotation")} as "nextRotation"`;

/** Columns of table secret `s` as far as lists show them. */
export const selectListFields = `s.id, s.project_id as "projectId", s.key, s.environment, s.type, s.description, s.tags,
  case when ${isExpired} then 'deleted' else s.status end as lifecycle, s.version,
  ${millis("s.created_at")} as "createdAt", ${millis("s.updated_at")} as "updatedAt",
  ${millis("s.expires_at")} as "expiresAt", s.rotation_enabled as "rotationEnabled",
  ${millis("s.next_rotation")} as "nextRotation"`;

type ListFields = Omit<
  SecretFields,
  "metadata" | "createdBy" | "archivedAt" | "deletedAt" | "rotationIntervalDays" | "lastRotated"
>;

/** As timestampFromMs makes it, for a fraction of the cost: a list holds hundreds. */
function time(at: Time): Timestamp {
  const ms = typeof at === "number" ? Math.round(at) : at.getTime();
  const seconds = Math.floor(ms / 1000);
  return { $typeName: "google.protobuf.Timestamp", seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1_000_000 };
}

const timeOrNone = (at: Time | null | undefined) => (at == null ? undefined : time(at));

function common(fields: ListFields) {
  return {
    id: fields.id,
    name: fields.key,
    key: fields.key,
    type: fields.type,
    description: fields.description,
    version: fields.version,
    tags: fields.tags,
    createdAt: time(fields.createdAt),
    updatedAt: time(fields.updatedAt),
    projectId: fields.projectId,
    environment: fields.environment ?? undefined,
    status: fields.lifecycle,
    expiresAt: timeOrNone(fields.expiresAt),
  };
}

/** A secret in a list (spec "List item"). */
export function listItem(fields: ListFields) {
  const rotation = { enabled: fields.rotationEnabled, nextRotation: timeOrNone(fields.nextRotation) };
  return { ...common(fields), rotation };
}

/** The metadata of a secret, which is the full record but for the value (gaps 2.1). */
export function record(fields: SecretFields) {
  return {
    ...common(fields),
    rotation: {
      enabled: fields.rotationEnabled,
      intervalDays: fields.rotationIntervalDays ?? undefined,
      lastRotated: timeOrNone(fields.lastRotated),
      nextRotation: timeOrNone(fields.nextRotation),
    },
    createdBy: fields.createdBy,
    metadata: (fields.metadata ?? {}) as JsonObject,
    archivedAt: timeOrNone(fields.archivedAt),
    deletedAt: timeOrNone(fields.deletedAt),
  };
}
