import type { KeyObject } from "node:crypto";
import { type EntityManager, run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { createMachineIdentity } from "./new-machine-identity.ts";

interface NewOrganization {
  readonly name: string;
  readonly instance: boolean;
  readonly roles: readonly string[];
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
}

interface Created {
  readonly organizationId: string;
  readonly createdAt: Date;
  readonly administrator: {
    readonly machineIdentityId: string;
    readonly clientId: string;
    readonly clientSecret: string;
  };
}

/** An organization with its key and a first administrator, in the transaction of `em`. Violates organization_name_key. */
export async function createOrganization(
  em: EntityManager,
  seal: Seal,
  pepper: KeyObject,
  { name, instance, roles, clientId, clientSecret }: NewOrganization,
): Promise<Created> {
  const [organization] = await run<{ id: string; created_at: string }>(
    em,
    "insert into organization (name, instance) values ($1, $2) returning id, created_at",
    [name, instance],
  );
  const organizationId = organization?.id as string;
  await seal.createOrganizationKey(em, organizationId);
  const { id, ...credentials } = await createMachineIdentity(em, pepper, {
    organizationId,
    name: "administrator",
    roles,
    description: "made with the organization",
    clientId,
    clientSecret,
  });
  return {
    organizationId,
    createdAt: new Date(organization?.created_at as string),
    administrator: { machineIdentityId: id, ...credentials },
  };
}
