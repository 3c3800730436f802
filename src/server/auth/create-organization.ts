import type { KeyObject } from "node:crypto";
import { type EntityManager, run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { hashOf, newClientSecret, prefixOf } from "./generated-credentials.ts";

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
  { name, instance, roles, clientId, clientSecret = newClientSecret() }: NewOrganization,
): Promise<Created> {
  const [organization] = await run<{ id: string; created_at: string }>(
    em,
    "insert into organization (name, instance) values ($1, $2) returning id, created_at",
    [name, instance],
  );
  const organizationId = organization?.id as string;
  await seal.createOrganizationKey(em, organizationId);
  const [identity] = await run<{ id: string; client_id: string }>(
    em,
    `insert into machine_identity (organization_id, name, client_id)
     values ($1, 'administrator', coalesce($2, uuidv7()::text)) returning id, client_id`,
    [organizationId, clientId ?? null],
  );
  const machineIdentityId = identity?.id as string;
  for (const role of roles) {
    await run(em, "insert into role_binding (organization_id, identity_id, role) values ($1, $2, $3)", [
      organizationId,
      machineIdentityId,
      role,
    ]);
  }
  await run(
    em,
    "insert into client_secret (organization_id, machine_identity_id, description, prefix, hash) values ($1, $2, $3, $4, $5)",
    [
      organizationId,
      machineIdentityId,
      "made with the organization",
      prefixOf(clientSecret),
      hashOf(pepper, clientSecret),
    ],
  );
  return {
    organizationId,
    createdAt: new Date(organization?.created_at as string),
    administrator: { machineIdentityId, clientId: identity?.client_id as string, clientSecret },
  };
}
