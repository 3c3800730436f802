import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

interface Operation {
  readonly name: string;
  readonly permission: string;
  /** What a denial is recorded as. */
  readonly action: string;
  readonly state?: "archived" | "deleted";
  call(by: Client, secret: { id: string; project_id: string }): ReturnType<Client["rest"]>;
}

const at = (id: string, action = "") => `/api/v1/secrets/${id}${action}`;
const operations: Operation[] = [
  {
    name: "create",
    permission: "secret:write",
    action: "secret.create",
    call: (by, { project_id }) =>
      by.rest("POST", "/api/v1/secrets", { project_id, key: `new-${Math.random()}`, value: "v" }),
  },
  {
    name: "list",
    permission: "secret:read",
    action: "secret.list",
    call: (by, { project_id }) => by.rest("GET", `/api/v1/secrets?project_id=${project_id}`),
  },
  {
    name: "list archived",
    permission: "secret:archive",
    action: "secret.list",
    call: (by, { project_id }) => by.rest("GET", `/api/v1/secrets?project_id=${project_id}&status=archived`),
  },
  {
    name: "list deleted",
    permission: "secret:archive",
    action: "secret.list",
    call: (by, { project_id }) => by.rest("GET", `/api/v1/secrets?project_id=${project_id}&status=deleted`),
  },
  {
    name: "read value",
    permission: "secret:read",
    action: "secret.read_value",
    call: (by, { id }) => by.rest("GET", at(id)),
  },
  {
    name: "read metadata",
    permission: "secret:read",
    action: "secret.read_value",
    call: (by, { id }) => by.rest("GET", at(id, "?view=metadata")),
  },
  {
    name: "list versions",
    permission: "secret:read",
    action: "secret.list_versions",
    call: (by, { id }) => by.rest("GET", at(id, "/versions")),
  },
  {
    name: "update",
    permission: "secret:write",
    action: "secret.update",
    call: (by, { id }) => by.rest("PUT", at(id), { value: "x" }),
  },
  {
    name: "roll back",
    permission: "secret:write",
    action: "secret.rollback",
    call: (by, { id }) => by.rest("POST", at(id, "/rollback"), { version: 1 }),
  },
  {
    name: "copy",
    permission: "secret:write",
    action: "secret.copy",
    call: (by, { id }) => by.rest("POST", at(id, "/copy"), { key: `copy-${Math.random()}` }),
  },
  {
    name: "delete",
    permission: "secret:delete",
    action: "secret.delete",
    call: (by, { id }) => by.rest("DELETE", at(id)),
  },
  {
    name: "archive",
    permission: "secret:archive",
    action: "secret.archive",
    call: (by, { id }) => by.rest("POST", at(id, "/archive")),
  },
  {
    name: "restore what was archived",
    permission: "secret:archive",
    action: "secret.restore",
    state: "archived",
    call: (by, { id }) => by.rest("POST", at(id, "/restore")),
  },
  {
    name: "restore what was deleted",
    permission: "secret:archive",
    action: "secret.restore",
    state: "deleted",
    call: (by, { id }) => by.rest("POST", at(id, "/restore")),
  },
  {
    name: "delete permanently",
    permission: "secret:permanent_delete",
    action: "secret.permanent_delete",
    call: (by, { id }) => by.rest("DELETE", at(id, "/permanent")),
  },
];

const holds: Record<string, string[]> = {
  viewer: ["secret:read"],
  editor: ["secret:read", "secret:write", "secret:delete", "secret:archive"],
  admin: ["secret:read", "secret:write", "secret:delete", "secret:archive", "secret:permanent_delete"],
  auditor: [],
  "gateway:admin": [],
};

describe("Operations on secrets", () => {
  let otherProjectId = "";

  before(async () => {
    const { body } = await server.admin.rest("POST", "/api/v1/projects", { name: "another" });
    otherProjectId = body.id;
  });

  async function secretFor({ state }: Operation, project_id = server.projectId) {
    const secret = await server.secret({ project_id });
    if (state === "archived") await server.admin.rest("POST", at(secret.id, "/archive"));
    if (state === "deleted") await server.admin.rest("DELETE", at(secret.id));
    return secret;
  }

  for (const [role, permissions] of Object.entries(holds)) {
    it(`are open to ${role} at the organization exactly as far as the specification says`, async () => {
      const client = await server.as(`${role}-everywhere`, [role]);
      for (const operation of operations) {
        const { status, body } = await operation.call(client, await secretFor(operation));

        const allowed = permissions.includes(operation.permission);
        const why = `${role}: ${operation.name} ${JSON.stringify(body)}`;
        if (allowed) expect(status, why).to.be.within(200, 204);
        else {
          expect(status, why).to.equal(403);
          expect(body.error.code).to.equal("PERMISSION_DENIED");
          expect(body.error.message).to.include(operation.permission.split(":")[0]);
        }
      }
    });
  }

  for (const role of ["viewer", "editor", "admin"]) {
    it(`are open to ${role} at one project there, and nowhere else`, async () => {
      const projectRoles = [{ project_id: server.projectId, role }];
      const client = await server.as(`${role}-here`, { projectRoles });
      for (const operation of operations) {
        const here = await operation.call(client, await secretFor(operation));
        const there = await operation.call(client, await secretFor(operation, otherProjectId));

        const allowed = holds[role]?.includes(operation.permission) === true;
        if (allowed) expect(here.status, `${operation.name} here`).to.be.within(200, 204);
        else expect(here.status, `${operation.name} here`).to.equal(403);
        expect(there.status, `${operation.name} there`).to.equal(403);
      }
    });
  }

  it("are refused and leave everything as it was to one without the permission, on the record", async () => {
    const nobody = await server.as("nobody", []);
    for (const operation of operations) {
      const secret = await secretFor(operation);
      const [before] = await server.sql("select * from secret where id = $1", [secret.id]);

      const { status, body } = await operation.call(nobody, secret);

      expect(status, operation.name).to.equal(403);
      expect(await server.sql("select * from secret where id = $1", [secret.id])).to.deep.equal([before]);
      const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
      expect(event, operation.name).to.include({
        outcome: "denied",
        reason: "PERMISSION_DENIED",
        actor_name: "nobody",
      });
      expect(event.action).to.equal(operation.action);
    }
  });

  it("are refused to anybody without a token", async () => {
    for (const operation of operations) {
      const { status, body } = await operation.call(server.anonymous, await secretFor(operation));

      expect(status, operation.name).to.equal(401);
      expect(body.error.code).to.equal("AUTH_REQUIRED");
    }
  });

  it("cannot be undone by one who may delete but not archive", async () => {
    const editor = await server.as("deleter", ["editor"]);
    const viewer = await server.as("onlooker", ["viewer"]);
    const { id } = await server.secret();
    await editor.rest("DELETE", at(id));

    const { status, body } = await viewer.rest("POST", at(id, "/restore"));

    expect(status).to.equal(403);
    expect(body.error.message).to.include("secret:archive");
  });
});
