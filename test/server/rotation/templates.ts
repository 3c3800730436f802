import { randomUUID } from "node:crypto";
import type { Answer, Client } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";

/** The path of the templates, or of one of them. */
export const templatesPath = (id?: string, query = ""): string =>
  `/api/v1/rotation/templates${id === undefined ? "" : `/${id}`}${query}`;

/** Everything about a template but its name, its project, and whether it is the default. */
export const fullTemplate = {
  description: "For databases.",
  rotation_interval_days: 90,
  lead_time_days: 14,
  grace_period_days: 7,
  secret_custody_mode: "delegated",
} as const;

/** A record of a template, as a client sees it. */
export type TemplateRecord = Answer["body"];

/** Rotation templates of a server, as clients see them. */
export class Templates {
  readonly #server: TestServer;

  constructor(server: TestServer) {
    this.#server = server;
  }

  post(fields: Record<string, unknown> = {}, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("POST", templatesPath(), { name: `template-${randomUUID()}`, ...fields });
  }

  async create(fields: Record<string, unknown> = {}, by: Client = this.#server.admin): Promise<TemplateRecord> {
    const { status, body } = await this.post(fields, by);
    if (status !== 201) throw new Error(`no template: ${JSON.stringify(body)}`);
    return body;
  }

  async get(id: string, by: Client = this.#server.admin): Promise<TemplateRecord> {
    return (await by.rest("GET", templatesPath(id))).body;
  }

  put(id: string, body: unknown, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("PUT", templatesPath(id), body);
  }

  delete(id: string, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("DELETE", templatesPath(id));
  }

  /** At most a hundred of them. */
  async list(by: Client = this.#server.admin, query = ""): Promise<TemplateRecord[]> {
    return (await by.rest("GET", templatesPath(undefined, `?per_page=100${query}`))).body.data;
  }

  /** The ids of those that are the default. */
  async defaults(by: Client = this.#server.admin): Promise<string[]> {
    return (await this.list(by)).filter(({ is_default: isDefault }) => isDefault).map(({ id }) => id);
  }

  async newProject(): Promise<string> {
    return (await this.#server.admin.rest("POST", "/api/v1/projects", { name: randomUUID() })).body.id;
  }

  /** An identity that holds one permission, in the project named or at the organization. */
  async holder(permission: string, projectId?: string): Promise<Client> {
    const role = `role-${randomUUID().slice(0, 8)}`;
    await this.#server.admin.rest("POST", "/api/v1/roles", { name: role, permissions: [permission] });
    const held = projectId === undefined ? { roles: [role] } : { projectRoles: [{ project_id: projectId, role }] };
    return this.#server.as(`identity-${randomUUID()}`, held);
  }
}
