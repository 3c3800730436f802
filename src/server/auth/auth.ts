import type { KeyObject } from "node:crypto";
import { MachineIdentityService as machineIdentities } from "../../../gen/ts/holdfast/auth/v1/machine_identity_service_pb.ts";
import { OrganizationService as organizations } from "../../../gen/ts/holdfast/auth/v1/organization_service_pb.ts";
import { ProjectService as projects } from "../../../gen/ts/holdfast/auth/v1/project_service_pb.ts";
import { TokenService as tokens } from "../../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import type { Core } from "../context.ts";
import { asKey } from "../seal/seal.ts";
import type { Service } from "../wire/doors.ts";
import type { Authenticate } from "../wire/identity.ts";
import { AccessTokens } from "./access-tokens.ts";
import { Identities } from "./identities.ts";
import { ClientSecret, MachineIdentity, RoleBinding } from "./machine-identity.ts";
import { MachineIdentityService } from "./machine-identity-service.ts";
import { Organization } from "./organization.ts";
import { OrganizationService } from "./organization-service.ts";
import { Project } from "./project.ts";
import { ProjectService } from "./project-service.ts";
import { TokenService } from "./token-service.ts";

export const authEntities = [Organization, Project, MachineIdentity, RoleBinding, ClientSecret];

/** Who may come in: the one context that the chain itself needs. */
export interface Auth {
  readonly authenticate: Authenticate;
  /** Keys the hashes of client secrets. */
  readonly pepper: KeyObject;
  readonly services: readonly Service[];
}

/** Opens the keys of the installation. Throws a ConfigError when the master key is not the one they were made with. */
export async function openAuth({ config, db, seal }: Core): Promise<Auth> {
  const accessTokens = await AccessTokens.open(seal, config.PUBLIC_URL ?? "holdfast");
  const pepper = asKey(await seal.serviceKey("client-secret-pepper"));
  const identities = new Identities(db, accessTokens);
  return {
    authenticate: (token) => identities.authenticate(token),
    pepper,
    services: [
      { descriptor: tokens, implementation: new TokenService(config, accessTokens, identities, pepper) },
      { descriptor: organizations, implementation: new OrganizationService(seal, pepper) },
      { descriptor: projects, implementation: new ProjectService() },
      {
        descriptor: machineIdentities,
        implementation: new MachineIdentityService(identities, pepper, config.ACCESS_TOKEN_TTL_SECONDS),
      },
    ],
  };
}
