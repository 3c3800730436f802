import type { KeyObject } from "node:crypto";
import { type AuditEvent, record, systemEvent } from "../audit/audit-writer.ts";
import type { Config } from "../config.ts";
import type { Core } from "../context.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem } from "../jobs.ts";
import { createOrganization } from "./create-organization.ts";

/** What the first start made; the secret is known here and nowhere else. */
export interface Bootstrapped {
  readonly projectId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The secret came from the settings, so that there is nothing to tell. */
  readonly secretWasGiven: boolean;
}

/** On an empty database makes an organization, a project and an administrator (G-9.9). Several replicas at once make one. */
export async function bootstrap(
  { config, db, seal }: Pick<Core, "config" | "db" | "seal">,
  pepper: KeyObject,
): Promise<Bootstrapped | undefined> {
  return asSystem(db, async (em) => {
    await run(em, "select pg_advisory_xact_lock(hashtextextended('holdfast:bootstrap', $1))", [0]);
    const [existing] = await run(em, "select 1 from organization limit $1", [1]);
    if (existing !== undefined) return undefined;
    const { organizationId, administrator } = await createOrganization(em, seal, pepper, {
      name: "default",
      instance: true,
      roles: ["admin", "gateway:admin"],
      clientId: config.BOOTSTRAP_CLIENT_ID,
      clientSecret: config.BOOTSTRAP_CLIENT_SECRET,
    });
    const projectId = await createProject(em, organizationId, config);
    await record(em, [eventOf(organizationId)]);
    const { clientId, clientSecret } = administrator;
    return { projectId, clientId, clientSecret, secretWasGiven: config.BOOTSTRAP_CLIENT_SECRET !== undefined };
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

const eventOf = (organizationId: string): AuditEvent =>
  systemEvent({
    organizationId,
    action: "organization.create",
    resourceType: "organization",
    resourceId: organizationId,
    resourceName: "default",
    reason: "first start on an empty database",
  });
