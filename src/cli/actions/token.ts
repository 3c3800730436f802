import {
  type ApiToken,
  ApiTokenSchema,
  ApiTokenService,
} from "../../../gen/ts/holdfast/auth/v1/api_token_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import type { Json } from "../commands/options.ts";
import { findProjectId, isId, theOnly } from "../find.ts";
import { note, printOnce, printRecords, printRestRecord, timeText } from "../output.ts";
import { openSession } from "../session.ts";

export interface CreateTokenOptions extends Json {
  readonly permission?: string[];
  readonly project?: string[];
  readonly expiresInDays?: number;
  readonly neverExpires?: boolean;
  readonly allowedIp?: string[];
}

export async function create(name: string, options: CreateTokenOptions): Promise<void> {
  const api = openSession();
  const projectIds: string[] = [];
  for (const project of options.project ?? []) projectIds.push(await findProjectId(api, project));
  const { permission: permissions = [], allowedIp: allowedIps = [], expiresInDays } = options;
  const token = await api(ApiTokenService).createApiToken({
    name,
    permissions,
    projectIds,
    allowedIps,
    expiresInDays,
    // An expiry that is named and not given is none.
    updateMask: options.neverExpires ? { paths: ["expires_in_days"] } : undefined,
  });
  if (options.json) return printRestRecord(ApiTokenSchema, token);
  const end = token.expiresAt === undefined ? "does not end by itself" : `ends ${timeText(token.expiresAt)}`;
  printOnce(token.token, `the token ${name} is shown this once; it ${end}`);
}

const listTokens = (api: Api): Promise<ApiToken[]> => allPages((page) => api(ApiTokenService).listApiTokens(page));

export async function list(options: Json): Promise<void> {
  printRecords(
    ApiTokenSchema,
    await listTokens(openSession()),
    [
      ["NAME", ({ name }) => name],
      ["PREFIX", ({ prefix }) => prefix],
      ["STATUS", ({ status }) => status],
      ["EXPIRES", ({ expiresAt }) => (expiresAt === undefined ? "never" : timeText(expiresAt))],
      ["LAST USED", ({ lastUsedAt }) => timeText(lastUsedAt)],
      ["PERMISSIONS", ({ permissions }) => (permissions.length === 0 ? "all of the owner's" : permissions.join(", "))],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function revoke(reference: string): Promise<void> {
  const api = openSession();
  const id = isId(reference) ? reference : await findByPrefix(api, reference);
  await api(ApiTokenService).revokeApiToken({ id });
  note(`revoked ${reference}`);
}

async function findByPrefix(api: Api, prefix: string): Promise<string> {
  const active = (await listTokens(api)).filter((token) => token.status === "active" && token.prefix === prefix);
  const describe = ({ id, name }: ApiToken) => `${id}  ${name}`;
  return theOnly(`active token ${prefix}`, active, describe, "say which by its id").id;
}
