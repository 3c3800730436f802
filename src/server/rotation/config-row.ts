import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type { RotationConfigSchema } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound } from "../errors.ts";
import { isExpired } from "../secrets/secret-record.ts";
import type { Call } from "../wire/call.ts";
import { usualProvider, usualSettings } from "./providers.ts";

/** How an active secret is rotated, with what else there is to know of it for that. */
export interface ConfigRow {
  readonly id: string;
  readonly secretId: string;
  readonly organizationId: string;
  readonly projectId: string;
  readonly key: string;
  /** Of the secret; none when it has none. */
  readonly environment: string | null;
  readonly enabled: boolean;
  readonly intervalDays: number | null;
  readonly nextRotation: string | null;
  readonly lastRotated: string | null;
  readonly createdAt: string;
  readonly provider: string;
  readonly settings: JsonObject;
  /** Sealed. */
  readonly credentials: Buffer | null;
  /** Whose active gateway applies the value; none where the server does. */
  readonly gatewayEnvironment: string | null;
  readonly gracePeriodDays: number;
  readonly lastStatus: "never" | "running" | "succeeded" | "failed";
  readonly lastErrorCode: string | null;
  readonly lastErrorMessage: string | null;
  readonly lastErrorAt: string | null;
  readonly consecutiveFailures: number;
  readonly updatedAt: string;
}

/** What has never been said or done is as usual: then the table has no row yet. */
const columns = `s.rotation_config_id as id, s.id as "secretId", s.organization_id as "organizationId",
  s.project_id as "projectId", s.key, s.environment, s.rotation_enabled as enabled,
  s.rotation_interval_days as "intervalDays", s.next_rotation as "nextRotation", s.last_rotated as "lastRotated",
  s.created_at as "createdAt", coalesce(c.provider, '${usualProvider}') as provider,
  coalesce(c.provider_settings, '${JSON.stringify(usualSettings)}') as settings, c.credentials,
  c.gateway_environment as "gatewayEnvironment", coalesce(c.grace_period_days, 0) as "gracePeriodDays", coalesce(c.last_status, 'never') as "lastStatus",
  c.last_error_code as "lastErrorCode", c.last_error_message as "lastErrorMessage", c.last_error_at as "lastErrorAt",
  coalesce(c.consecutive_failures, 0) as "consecutiveFailures", coalesce(c.updated_at, s.created_at) as "updatedAt"`;

/** SQL for whether the secret in `s` is one that is rotated at all. */
export const isActive = `s.status = 'active' and not ${isExpired}`;

/** The configuration of an active secret, found by the id of either. The call is then about the secret. */
export async function findConfig(call: Call, by: { secretId: string } | { configId: string }): Promise<ConfigRow> {
  const [column, id] = "secretId" in by ? ["s.id", by.secretId] : ["s.rotation_config_id", by.configId];
  const [row] = await call.query<ConfigRow>(
    `select ${columns} from secret s left join rotation_config c on c.id = s.rotation_config_id
     where ${column} = $1 and s.organization_id = $2 and ${isActive}`,
    [id, call.caller.organizationId],
  );
  if (row === undefined) throw notFound("secretId" in by ? "secret" : "rotation configuration");
  call.about({ type: "secret", id: row.secretId, name: row.key, projectId: row.projectId });
  return row;
}

/** What is told of a configuration (gaps 3.1): of credentials, only whether there are any. */
export const answerConfig = (row: ConfigRow): MessageInitShape<typeof RotationConfigSchema> => ({
  id: row.id,
  secretId: row.secretId,
  enabled: row.enabled,
  intervalDays: row.intervalDays ?? undefined,
  provider: row.provider,
  providerSettings: row.settings,
  hasCredentials: row.credentials !== null,
  gatewayEnvironment: row.gatewayEnvironment ?? undefined,
  nextRotation: timestampOf(row.nextRotation),
  lastRotated: timestampOf(row.lastRotated),
  lastStatus: row.lastStatus,
  lastError:
    row.lastErrorCode === null
      ? undefined
      : { code: row.lastErrorCode, message: row.lastErrorMessage ?? "", at: timestampOf(row.lastErrorAt) },
  consecutiveFailures: row.consecutiveFailures,
  createdAt: timestampOf(row.createdAt),
  updatedAt: timestampOf(row.updatedAt),
  gracePeriodDays: row.gracePeriodDays,
});
