import type { KeyObject } from "node:crypto";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/auth/v1/session_service_pb.ts";
import { run } from "../db/database.ts";
import { invalid, notFound, Refusal, referenceNotFound, wrongState } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import type { Credential } from "../wire/identity.ts";
import type { Authenticator } from "./authenticator.ts";
import { absoluteMs, cookiesOf, csrfTokenOf, endedCookies } from "./cookies.ts";
import { hashOf, newSessionSecret } from "./generated-credentials.ts";
import { holdsAtOrganization, isGrantable } from "./restriction.ts";

interface Keys {
  readonly pepper: KeyObject;
  readonly csrfKey: KeyObject;
}

/** The methods of session_service.proto. */
export class SessionService implements ServiceImpl<typeof pb.SessionService> {
  readonly #authenticator: Authenticator;
  readonly #keys: Keys;

  constructor(authenticator: Authenticator, keys: Keys) {
    this.#authenticator = authenticator;
    this.#keys = keys;
  }

  async whoAmI({ can, projectId }: pb.WhoAmIRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id, type, name, organizationId, roles, permissions, projectPermissions } = call.caller;
    const { type: credentialType, id: credentialId, expiresAt } = credentialOf(call);
    await checkQuestion(call, can, projectId);
    const answers = can.map((permission) => ({ permission, projectId, allowed: holds(call, permission, projectId) }));
    return {
      id,
      type,
      name,
      organizationId,
      credential: { type: credentialType, id: credentialId, expiresAt: expiresAt && timestampFromDate(expiresAt) },
      roles: [...roles],
      permissions: [...permissions].sort(),
      projectPermissions: [...projectPermissions].map(([project, held]) => ({
        projectId: project,
        permissions: [...held].sort(),
      })),
      can: answers,
    };
  }

  async createSession(_: pb.CreateSessionRequest, context: HandlerContext) {
    const call = callOf(context);
    // The number that the caller was admitted with: if it is another one by now, the session ends before it begins.
    const { id: identityId, organizationId, credentialVersion } = call.caller;
    const { type, authenticatedAt } = credentialOf(call);
    if (type !== "access_token") throw new Refusal("PERMISSION_DENIED", "a session begins with an access token");
    const expiresAt = new Date(authenticatedAt.getTime() + absoluteMs);
    if (expiresAt <= call.now) {
      throw new Refusal("PERMISSION_DENIED", "a session begins with a login of the last twelve hours");
    }
    const secret = newSessionSecret();
    const [session] = await run<{ id: string }>(
      call.em,
      `insert into session (organization_id, identity_id, hash, credential_version, expires_at)
       values ($1, $2, $3, $4, $5) returning id`,
      [organizationId, identityId, hashOf(this.#keys.pepper, secret), credentialVersion, expiresAt],
    );
    const id = session?.id as string;
    const csrfToken = csrfTokenOf(this.#keys.csrfKey, id);
    call.about({ id });
    call.cookies.push(...cookiesOf(secret, csrfToken));
    return { csrfToken, expiresAt: timestampFromDate(expiresAt) };
  }

  async deleteSession(_: pb.DeleteSessionRequest, context: HandlerContext) {
    const call = callOf(context);
    if (credentialOf(call).type !== "session") throw notFound("session");
    await this.#endSession(call);
    return {};
  }

  getCsrfToken(_: pb.GetCsrfTokenRequest, context: HandlerContext) {
    return { csrfToken: csrfTokenOf(this.#keys.csrfKey, credentialOf(callOf(context)).id) };
  }

  async logout(_: pb.LogoutRequest, context: HandlerContext) {
    const call = callOf(context);
    const { type, id, expiresAt } = credentialOf(call);
    call.about({ type, id });
    if (type === "session") await this.#endSession(call);
    else if (type === "api_token") {
      throw wrongState("an API token is not logged out; DELETE /api/v1/api-tokens/{id} revokes it");
    } else {
      await run(
        call.em,
        "insert into revoked_token (id, organization_id, expires_at) values ($1, $2, $3) on conflict do nothing",
        [id, call.caller.organizationId, expiresAt],
      );
      await this.#authenticator.end(call, "access_token", [id]);
    }
    return {};
  }

  async #endSession(call: Call): Promise<void> {
    const { id } = credentialOf(call);
    call.about({ id });
    const [ended] = await run<{ hash: Buffer }>(
      call.em,
      "update session set ended_at = now() where id = $1 and organization_id = $2 returning hash",
      [id, call.caller.organizationId],
    );
    if (ended === undefined) throw notFound("session");
    call.cookies.push(...endedCookies());
    await this.#authenticator.end(call, "session", [ended.hash]);
  }
}

function credentialOf(call: Call): Credential {
  const { credential } = call.caller;
  if (credential === undefined) throw new Error("the call was made without a credential");
  return credential;
}

async function checkQuestion(call: Call, can: readonly string[], projectId: string | undefined): Promise<void> {
  const faults = can.flatMap((permission, index) =>
    isGrantable(permission) ? [] : [{ field: `can[${index}]`, message: "is not a permission" }],
  );
  if (faults.length > 0) throw invalid(faults);
  if (projectId === undefined) return;
  const [project] = await call.query("select 1 from project where id = $1 and organization_id = $2", [
    projectId,
    call.caller.organizationId,
  ]);
  if (project === undefined) throw referenceNotFound("project_id", "project");
}

function holds(call: Call, permission: string, projectId: string | undefined): boolean {
  if (holdsAtOrganization(call.caller, permission)) return true;
  return projectId !== undefined && call.may(permission, projectId);
}
