import type { KeyObject } from "node:crypto";
import { ApiTokenService as apiTokens } from "../../../gen/ts/holdfast/auth/v1/api_token_service_pb.ts";
import { MachineIdentityService as machineIdentities } from "../../../gen/ts/holdfast/auth/v1/machine_identity_service_pb.ts";
import { OrganizationService as organizations } from "../../../gen/ts/holdfast/auth/v1/organization_service_pb.ts";
import { ProjectService as projects } from "../../../gen/ts/holdfast/auth/v1/project_service_pb.ts";
import { RoleService as roles } from "../../../gen/ts/holdfast/auth/v1/role_service_pb.ts";
import { SessionService as sessions } from "../../../gen/ts/holdfast/auth/v1/session_service_pb.ts";
import { SrpService as srp } from "../../../gen/ts/holdfast/auth/v1/srp_service_pb.ts";
import { TokenService as tokens } from "../../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import { UserService as users } from "../../../gen/ts/holdfast/auth/v1/user_service_pb.ts";
import type { Context, Core, Identities } from "../context.ts";
import type { Job } from "../jobs.ts";
import { asKey } from "../seal/seal.ts";
import type { Service } from "../wire/doors.ts";
import type { Authenticate } from "../wire/identity.ts";
import { AccessTokens } from "./access-tokens.ts";
import { ApiTokenService } from "./api-token-service.ts";
import { Authenticator } from "./authenticator.ts";
import { ApiToken, RevokedToken, Session } from "./credentials.ts";
import { FailedLogins } from "./failed-logins.ts";
import { hashOf } from "./generated-credentials.ts";
import { ClientSecret, MachineIdentity, RoleBinding } from "./machine-identity.ts";
import { MachineIdentityService, removeMachineIdentity } from "./machine-identity-service.ts";
import { createMachineIdentity } from "./new-machine-identity.ts";
import { Organization } from "./organization.ts";
import { OrganizationService } from "./organization-service.ts";
import { Project } from "./project.ts";
import { ProjectService } from "./project-service.ts";
import { purgeJob } from "./purge.ts";
import { Role } from "./role.ts";
import { RoleService } from "./role-service.ts";
import { SessionService } from "./session-service.ts";
import { SrpAccounts } from "./srp-accounts.ts";
import { SrpHandshakes } from "./srp-handshakes.ts";
import { SrpService } from "./srp-service.ts";
import { TokenService } from "./token-service.ts";
import { User } from "./user.ts";
import { UserService } from "./user-service.ts";

export const authEntities = [
  Organization,
  Project,
  User,
  MachineIdentity,
  Role,
  RoleBinding,
  ClientSecret,
  ApiToken,
  Session,
  RevokedToken,
];

/** Who may come in: the one context that the chain itself needs. */
export interface Auth {
  readonly authenticate: Authenticate;
  /** Keys the hashes of client secrets, API tokens, session cookies and enrollment tokens. */
  readonly pepper: KeyObject;
  /** The passwords of users. */
  readonly accounts: SrpAccounts;
  readonly identities: Identities;
  readonly services: readonly Service[];
  readonly jobs: readonly Job[];
  readonly statistics: Context["statistics"];
  stop(): void;
}

/** Opens the keys of the installation. Throws a ConfigError when the master key is not the one they were made with. */
export async function openAuth({ config, db, seal, redis, logger }: Core): Promise<Auth> {
  const key = async (name: string) => asKey(await seal.serviceKey(name));
  const [accessTokens, pepper, csrfKey, nobodyKey, handshakeKey] = await Promise.all([
    AccessTokens.open(seal, config.PUBLIC_URL ?? "holdfast"),
    key("client-secret-pepper"),
    key("csrf"),
    key("srp-nobody"),
    key("srp-handshake"),
  ]);
  const authenticator = new Authenticator({ db, logger, tokens: accessTokens, pepper, csrfKey });
  const failedLogins = new FailedLogins(redis);
  const accounts = new SrpAccounts(seal, nobodyKey);
  const handshakes = new SrpHandshakes(redis, handshakeKey);
  const ways = { config, accessTokens, authenticator, failedLogins, pepper };
  await authenticator.start();
  return {
    authenticate: (presented) => authenticator.authenticate(presented),
    pepper,
    accounts,
    identities: {
      hashOf: (credential) => hashOf(pepper, credential),
      create: (em, draft) => createMachineIdentity(em, pepper, draft),
      remove: (call, id) => removeMachineIdentity(call, authenticator, id),
    },
    services: [
      { descriptor: tokens, implementation: new TokenService(ways) },
      { descriptor: srp, implementation: new SrpService({ ...ways, accounts, handshakes }) },
      { descriptor: sessions, implementation: new SessionService(authenticator, { pepper, csrfKey }) },
      { descriptor: apiTokens, implementation: new ApiTokenService(authenticator, pepper) },
      { descriptor: organizations, implementation: new OrganizationService(authenticator, seal, pepper) },
      { descriptor: projects, implementation: new ProjectService() },
      {
        descriptor: machineIdentities,
        implementation: new MachineIdentityService(authenticator, pepper, config.ACCESS_TOKEN_TTL_SECONDS),
      },
      { descriptor: users, implementation: new UserService(authenticator, pepper) },
      { descriptor: roles, implementation: new RoleService(authenticator) },
    ],
    jobs: [purgeJob(db)],
    statistics: {
      active_users: "select count(*) from user_account where last_authenticated_at > now() - interval '30 days'",
    },
    stop: () => authenticator.stop(),
  };
}
