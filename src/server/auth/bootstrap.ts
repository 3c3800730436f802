import { type KeyObject, randomBytes } from "node:crypto";
import { rfc5054Group3072 as group, saltLength, verifierFor } from "../../standards/srp.ts";
import { type AuditEvent, systemEvent } from "../audit/audit-writer.ts";
import type { Config } from "../config.ts";
import type { Core } from "../context.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem } from "../jobs.ts";
import { createOrganization } from "./create-organization.ts";
import { hashOf, prefixOf } from "./generated-credentials.ts";
import type { SrpAccounts } from "./srp-accounts.ts";

/** What the first start made; the secrets are known here and nowhere else. */
export interface Bootstrapped {
  readonly projectId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** It came from the settings, so that there is nothing to tell; likewise the password. */
  readonly secretWasGiven: boolean;
  readonly username: string;
  readonly password: string;
  readonly passwordWasGiven: boolean;
}

const roles = ["admin", "gateway:admin"];

/**
 * On an empty database makes an organization, a project and two administrators, a machine identity and a user (G-9.9).
 * Several replicas at once make one.
 */
export async function bootstrap(
  { config, db, seal, audit }: Pick<Core, "config" | "db" | "seal" | "audit">,
  { pepper, accounts }: { readonly pepper: KeyObject; readonly accounts: SrpAccounts },
): Promise<Bootstrapped | undefined> {
  return asSystem(db, async (em) => {
    await run(em, "select pg_advisory_xact_lock(hashtextextended('holdfast:bootstrap', $1))", [0]);
    const [existing] = await run(em, "select 1 from organization limit $1", [1]);
    if (existing !== undefined) return undefined;
    const { organizationId, administrator } = await createOrganization(em, seal, pepper, {
      name: "default",
      instance: true,
      roles,
      clientId: config.BOOTSTRAP_CLIENT_ID,
      clientSecret: config.BOOTSTRAP_CLIENT_SECRET,
    });
    const projectId = await createProject(em, organizationId, config);
    const password = config.BOOTSTRAP_ADMIN_PASSWORD ?? randomBytes(18).toString("base64url");
    const username = config.BOOTSTRAP_ADMIN_USERNAME;
    const userId = await createUser(em, organizationId, username);
    const salt = randomBytes(saltLength);
    const verifier = await verifierFor(group, salt, username, password);
    const queries = { em, query: <Row>(text: string, values: readonly unknown[]) => run<Row>(em, text, values) };
    await accounts.setVerifier(queries, { id: userId, organizationId }, { salt, verifier });
    if (config.BOOTSTRAP_API_TOKEN !== undefined) {
      await createApiToken(em, organizationId, userId, config.BOOTSTRAP_API_TOKEN, pepper);
    }
    await audit.record(em, [eventOf(organizationId)]);
    const { clientId, clientSecret } = administrator;
    return {
      projectId,
      clientId,
      clientSecret,
      secretWasGiven: config.BOOTSTRAP_CLIENT_SECRET !== undefined,
      username,
      password,
      passwordWasGiven: config.BOOTSTRAP_ADMIN_PASSWORD !== undefined,
    };
  });
}

async function createProject(em: EntityManager, organizationId: string, config: Config): Promise<string> {
  const [project] = await run<{ id: string }>(
    em,
    "insert into project (id, organization_id, name) values (coalesce($1, uuidv7()), $2, 'default') returning id",
    [config.BOOTSTRAP_PROJECT_ID ?? null, organizationId],
  );
  return project?.id as string;
}

async function createUser(em: EntityManager, organizationId: string, username: string): Promise<string> {
  const [user] = await run<{ id: string }>(
    em,
    `with created as (
       insert into user_account (organization_id, username, display_name) values ($1, $2, 'Administrator') returning id),
     bound as (
       insert into role_binding (organization_id, identity_id, role)
       select $1, created.id, role from created, unnest($3::text[]) as role)
     select id from created`,
    [organizationId, username, roles],
  );
  return user?.id as string;
}

async function createApiToken(
  em: EntityManager,
  organizationId: string,
  ownerId: string,
  token: string,
  pepper: KeyObject,
): Promise<void> {
  await run(
    em,
    "insert into api_token (organization_id, owner_id, name, prefix, hash) values ($1, $2, 'bootstrap', $3, $4)",
    [organizationId, ownerId, prefixOf(token), hashOf(pepper, token)],
  );
}

const eventOf = (organizationId: string): AuditEvent =>
  systemEvent({
    organizationId,
    action: "organization.create",
    resourceType: "organization",
    resourceId: organizationId,
    resourceName: "default",
    reason: "first start on an empty database",
  });
