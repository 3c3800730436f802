import { timestampDate } from "@bufbuild/protobuf/wkt";
import * as pb from "../../../gen/ts/holdfast/auth/v1/api_token_service_pb.ts";
import { run } from "../db/database.ts";
import { invalid, invalidField, permissionDenied, Refusal, referenceNotFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import type { Restriction } from "../wire/identity.ts";
import { mentions } from "../wire/update-mask.ts";
import { holdsAtOrganization, isGrantable } from "./restriction.ts";

const dayMs = 24 * 60 * 60_000;
const usualDays = 90;
const mostDays = 365;

/** What the token is restricted to: at most what the caller holds, and all that the caller's own token is restricted to. */
export async function restrictionOf(call: Call, request: pb.CreateApiTokenRequest): Promise<Restriction> {
  const own = call.caller.credential?.restriction ?? { permissions: [], projectIds: [] };
  const asked = request.projectIds.map((projectId) => projectId.toLowerCase());
  const projectIds = asked.length === 0 ? own.projectIds : [...new Set(asked)];
  const permissions = request.permissions.length === 0 ? own.permissions : [...new Set(request.permissions)];
  const faults = request.permissions.flatMap((permission, index) =>
    isGrantable(permission) ? [] : [{ field: `permissions[${index}]`, message: "is not a permission" }],
  );
  if (faults.length > 0) throw invalid(faults);
  await checkProjects(call, asked);
  if (own.projectIds.length > 0 && projectIds.some((projectId) => !own.projectIds.includes(projectId))) {
    throw new Refusal("PERMISSION_DENIED", "the API token that makes this one is restricted to other projects");
  }
  for (const permission of permissions) checkHeld(call, permission, projectIds);
  return { permissions, projectIds };
}

function checkHeld(call: Call, permission: string, projectIds: readonly string[]): void {
  if (holdsAtOrganization(call.caller, permission)) return;
  const places = projectIds.length === 0 ? [...call.caller.projectPermissions.keys()] : projectIds;
  if (!places.some((projectId) => call.may(permission, projectId))) throw permissionDenied(permission);
}

async function checkProjects(call: Call, projectIds: readonly string[]): Promise<void> {
  if (projectIds.length === 0) return;
  const found = await run<{ id: string }>(
    call.em,
    "select id from project where organization_id = $1 and id = any($2)",
    [call.caller.organizationId, projectIds],
  );
  const known = new Set(found.map(({ id }) => id));
  const missing = projectIds.findIndex((projectId) => !known.has(projectId));
  if (missing !== -1) throw referenceNotFound(`project_ids[${missing}]`, "project");
}

/** When the token ends by itself; undefined means never, which takes an explicit null. */
export function expiryOf(call: Call, request: pb.CreateApiTokenRequest): Date | undefined {
  const mentioned = mentions(pb.CreateApiTokenRequestSchema, request);
  const { expiresInDays, expiresAt: at } = request;
  if (expiresInDays !== undefined && at !== undefined) {
    throw invalidField("expires_at", "must not be given together with expires_in_days");
  }
  const after = (days: number) => new Date(call.now.getTime() + days * dayMs);
  const field = at === undefined ? "expires_in_days" : "expires_at";
  const isNever =
    expiresInDays === undefined && at === undefined && (mentioned("expires_in_days") || mentioned("expires_at"));
  const latest = call.caller.credential?.type === "api_token" ? call.caller.credential.expiresAt : undefined;
  const isGiven = isNever || expiresInDays !== undefined || at !== undefined;
  const asked = at === undefined ? after(expiresInDays ?? usualDays) : timestampDate(at);
  // In this form it also refuses a time that is too far away for a Date.
  if (at !== undefined && !(asked > call.now && asked <= after(mostDays))) {
    throw invalidField(field, `must be in the future, and at most ${mostDays} days away`);
  }
  if (latest === undefined) return isNever ? undefined : asked;
  if (isGiven && (isNever || asked > latest))
    throw invalidField(field, "must not be after the end of the API token that makes this one");
  return asked < latest ? asked : latest;
}
