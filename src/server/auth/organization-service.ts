import type { KeyObject } from "node:crypto";
import { toJson } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { LockMode } from "@mikro-orm/core";
import type * as pb from "../../../gen/ts/holdfast/auth/v1/organization_service_pb.ts";
import {
  OrganizationPasswordPolicySchema,
  OrganizationSessionPolicySchema,
} from "../../../gen/ts/holdfast/auth/v1/organization_service_pb.ts";
import { duplicate, notFound, Refusal, violates } from "../errors.ts";
import type { Seal } from "../seal/seal.ts";
import { type Call, callOf } from "../wire/call.ts";
import type { Authenticator } from "./authenticator.ts";
import { createOrganization } from "./create-organization.ts";
import { Organization } from "./organization.ts";
import { passwordPolicyOf, sessionPolicyOf } from "./organization-policies.ts";

const asProto = { useProtoFieldName: true };

/** The methods of organization_service.proto. */
export class OrganizationService implements ServiceImpl<typeof pb.OrganizationService> {
  readonly #authenticator: Authenticator;
  readonly #seal: Seal;
  readonly #pepper: KeyObject;

  constructor(authenticator: Authenticator, seal: Seal, pepper: KeyObject) {
    this.#authenticator = authenticator;
    this.#seal = seal;
    this.#pepper = pepper;
  }

  async createOrganization({ name }: pb.CreateOrganizationRequest, context: HandlerContext) {
    const call = callOf(context);
    if (!call.caller.ofInstance) {
      throw new Refusal("PERMISSION_DENIED", "only administrators of the first organization create organizations");
    }
    const created = await createOrganization(call.em, this.#seal, this.#pepper, {
      name,
      instance: false,
      // Nobody else could ever give the second one to anybody there.
      roles: ["admin", "gateway:admin"],
    }).catch(nameTaken);
    call.about({ id: created.organizationId, name });
    const time = timestampFromDate(created.createdAt);
    return { id: created.organizationId, name, createdAt: time, updatedAt: time, administrator: created.administrator };
  }

  async listOrganizations({ page = 1, perPage = 25 }: pb.ListOrganizationsRequest, context: HandlerContext) {
    const call = callOf(context);
    const own = await findOwn(call, call.caller.organizationId);
    return { data: page === 1 ? [answer(own)] : [], pagination: { page, perPage, total: 1 } };
  }

  async getOrganization({ id }: pb.GetOrganizationRequest, context: HandlerContext) {
    return answer(await findOwn(callOf(context), id));
  }

  async updateOrganization(request: pb.UpdateOrganizationRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id, name, passwordPolicy, sessionPolicy } = request;
    const organization = await findOwn(call, id);
    call.about({ id, name: organization.name, details: policiesIn(request) });
    if (name !== undefined) organization.rename(name, call.now);
    if (passwordPolicy !== undefined) organization.requireOfPasswords(passwordPolicy, call.now);
    if (sessionPolicy?.maxIdleTimeoutMinutes !== undefined) {
      organization.requireOfSessions(sessionPolicy, call.now);
      // How long a session may be idle is remembered with it.
      await this.#authenticator.forgetAll(call);
    }
    await call.em.flush().catch(nameTaken);
    return answer(organization);
  }
}

/** What of the policies a request sets, for the audit log. */
const policiesIn = ({ passwordPolicy, sessionPolicy }: pb.UpdateOrganizationRequest) => ({
  ...(passwordPolicy && { password_policy: toJson(OrganizationPasswordPolicySchema, passwordPolicy, asProto) }),
  ...(sessionPolicy && { session_policy: toJson(OrganizationSessionPolicySchema, sessionPolicy, asProto) }),
});

/** Locked in a call that changes something: a policy is changed field by field. */
async function findOwn(call: Call, id: string): Promise<Organization> {
  const options = call.policy?.readOnly ? {} : { lockMode: LockMode.PESSIMISTIC_WRITE };
  const organization = id === call.caller.organizationId ? await call.em.findOne(Organization, id, options) : null;
  if (organization === null) throw notFound("organization");
  return organization;
}

function nameTaken(error: unknown): never {
  throw violates(error, "organization_name_key") ? duplicate("name", "is taken") : error;
}

const answer = ({ id, name, createdAt, updatedAt, passwordPolicy, sessionPolicy }: Organization) => ({
  id,
  name,
  createdAt: timestampFromDate(createdAt),
  updatedAt: timestampFromDate(updatedAt),
  passwordPolicy: passwordPolicyOf(passwordPolicy),
  sessionPolicy: sessionPolicyOf(sessionPolicy),
});
