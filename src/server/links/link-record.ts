import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type { LinkSchema, SyncTargetSchema } from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound } from "../errors.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Call } from "../wire/call.ts";

/** A link, as answers are made of it. */
export interface LinkRow {
  readonly id: string;
  readonly secretId: string;
  readonly integration: string;
  readonly name: string;
  readonly environment: string | null;
  readonly config: JsonObject;
  readonly place: Buffer;
  readonly host: string;
  readonly hasCredentials: boolean;
  readonly syncEnabled: boolean;
  readonly status: string;
  readonly version: number | null;
  readonly lastSynced: string | null;
  readonly lastErrorCode: string | null;
  readonly lastErrorMessage: string | null;
  readonly lastErrorAt: string | null;
  readonly createdBy: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** Columns of table secret_link `l` as a LinkRow. What failed is pending again when its time has come (gaps 4.2). */
export const linkColumns = `l.id, l.secret_id as "secretId", l.integration, l.name, l.environment, l.config, l.place, l.host,
  l.credentials is not null as "hasCredentials", l.sync_enabled as "syncEnabled",
  case when l.status = 'failed' and l.due_at <= now() then 'pending' else l.status end as status,
  l.version, l.last_synced as "lastSynced", l.last_error_code as "lastErrorCode",
  l.last_error_message as "lastErrorMessage", l.last_error_at as "lastErrorAt", l.created_by as "createdBy",
  l.created_at as "createdAt", l.updated_at as "updatedAt"`;

/** The links of a secret, in the order in which they were made. */
export const linksOf = (call: Call, { id, organizationId }: Secret): Promise<LinkRow[]> =>
  call.query<LinkRow>(
    `select ${linkColumns} from secret_link l where l.secret_id = $1 and l.organization_id = $2 order by l.id`,
    [id, organizationId],
  );

/** A link of a secret; the call is then about the link. */
export async function findLink(call: Call, { id, organizationId }: Secret, linkId: string): Promise<LinkRow> {
  const [row] = await call.query<LinkRow>(
    `select ${linkColumns} from secret_link l where l.id = $1 and l.secret_id = $2 and l.organization_id = $3`,
    [linkId, id, organizationId],
  );
  if (row === undefined) throw notFound("link");
  aboutLink(call, row);
  return row;
}

/** Has the call recorded as one about a link. */
export const aboutLink = (call: Call, { id, secretId, integration }: LinkRow): void =>
  call.about({ type: "link", id, details: { secret_id: secretId, integration } });

/** What is told of a link (gaps 4.1): of credentials, only whether there are any. */
export const answerLink = (row: LinkRow): MessageInitShape<typeof LinkSchema> => ({
  id: row.id,
  secretId: row.secretId,
  integration: row.integration,
  name: row.name,
  environment: row.environment ?? undefined,
  config: row.config,
  hasCredentials: row.hasCredentials,
  syncEnabled: row.syncEnabled,
  status: row.status,
  lastSynced: timestampOf(row.lastSynced),
  version: row.version ?? undefined,
  lastError: lastErrorOf(row),
  createdBy: row.createdBy,
  createdAt: timestampOf(row.createdAt),
  updatedAt: timestampOf(row.updatedAt),
});

/** A link as a target (gaps 4.3), in its own environment or else in that of the secret. */
export const answerTarget = (row: LinkRow, secret: Secret): MessageInitShape<typeof SyncTargetSchema> => ({
  targetId: row.id,
  status: row.status,
  lastSynced: timestampOf(row.lastSynced),
  version: row.version ?? undefined,
  integration: row.integration,
  name: row.name,
  environment: environmentOf(row, secret) ?? undefined,
  lastError: lastErrorOf(row),
});

export const environmentOf = (row: LinkRow, secret: Secret): string | null =>
  row.environment ?? secret.environment ?? null;

const lastErrorOf = ({ lastErrorCode: code, lastErrorMessage: message, lastErrorAt: at }: LinkRow) =>
  code === null ? undefined : { code, message: message ?? "", at: timestampOf(at) };
