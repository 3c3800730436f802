import type { KeyObject } from "node:crypto";
import { type EntityManager, run } from "../db/database.ts";
import { hashOf, newClientSecret, prefixOf } from "./generated-credentials.ts";

interface Draft {
  readonly organizationId: string;
  readonly name: string;
  readonly roles: readonly string[];
  /** Why there is a client secret. */
  readonly description: string;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
}

/** A machine identity, and what it proves itself with. */
export interface NewMachineIdentity {
  readonly id: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

/**
 * Makes a machine identity with roles at its organization and one client secret, in the transaction of `em`. Whether
 * somebody may give those roles is asked before. Violates machine_identity_organization_id_name_key.
 */
export async function createMachineIdentity(
  em: EntityManager,
  pepper: KeyObject,
  { organizationId, name, roles, description, clientId, clientSecret = newClientSecret() }: Draft,
): Promise<NewMachineIdentity> {
  const [identity] = await run<{ id: string; client_id: string }>(
    em,
    `insert into machine_identity (organization_id, name, client_id)
     values ($1, $2, coalesce($3, uuidv7()::text)) returning id, client_id`,
    [organizationId, name, clientId ?? null],
  );
  const id = identity?.id as string;
  await run(
    em,
    "insert into role_binding (organization_id, identity_id, role) select $1, $2, role from unnest($3::text[]) as u(role)",
    [organizationId, id, roles],
  );
  await run(
    em,
    "insert into client_secret (organization_id, machine_identity_id, description, prefix, hash) values ($1, $2, $3, $4, $5)",
    [organizationId, id, description, prefixOf(clientSecret), hashOf(pepper, clientSecret)],
  );
  return { id, clientId: identity?.client_id as string, clientSecret };
}
