import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

interface Operation {
  readonly name: string;
  readonly permission: string;
  /** What a denial is recorded as. */
  readonly action: string;
  call(by: Client, keytab: { id: string; project_id: string | null }): ReturnType<Client["rest"]>;
}

const path = "/api/v1/keytabs";
const at = (id: string, action = "") => `${path}/${id}${action}`;
const operations: Operation[] = [
  {
    name: "import",
    permission: "keytab:write",
    action: "keytab.import",
    call: (by, { project_id }) =>
      by.rest("POST", path, { name: "k", keytab_data: newKeytab().toString("base64"), project_id }),
  },
  { name: "read", permission: "keytab:read", action: "keytab.read", call: (by, { id }) => by.rest("GET", at(id)) },
  {
    name: "update",
    permission: "keytab:write",
    action: "keytab.update",
    call: (by, { id }) => by.rest("PUT", at(id), { notes: "n" }),
  },
  {
    name: "replace the file",
    permission: "keytab:write",
    action: "keytab.update",
    call: (by, { id }) => by.rest("PUT", at(id), { keytab_data: newKeytab().toString("base64") }),
  },
  {
    name: "download",
    permission: "keytab:download",
    action: "keytab.download",
    call: (by, { id }) => by.rest("GET", at(id, "/download")),
  },
  {
    name: "list the history",
    permission: "keytab:read",
    action: "keytab.list_history",
    call: (by, { id }) => by.rest("GET", at(id, "/history")),
  },
  {
    name: "check",
    permission: "keytab:write",
    action: "keytab.check_compliance",
    call: (by, { id }) => by.rest("POST", at(id, "/check-compliance"), {}),
  },
  {
    name: "delete",
    permission: "keytab:delete",
    action: "keytab.delete",
    call: (by, { id }) => by.rest("DELETE", at(id)),
  },
];

const everywhere: Operation[] = [
  { name: "list", permission: "keytab:read", action: "keytab.list", call: (by) => by.rest("GET", path) },
  {
    name: "refresh",
    permission: "keytab:write",
    action: "keytab.refresh_compliance",
    call: (by) => by.rest("POST", `${path}/refresh-compliance`, {}),
  },
  {
    name: "read the dashboard",
    permission: "keytab:read",
    action: "keytab.dashboard",
    call: (by) => by.rest("GET", `${path}/dashboard`),
  },
];

const holds: Record<string, string[]> = {
  viewer: ["keytab:read"],
  auditor: ["keytab:read"],
  editor: ["keytab:read", "keytab:write"],
  admin: ["keytab:read", "keytab:write", "keytab:delete", "keytab:download"],
  "gateway:admin": [],
};

describe("Operations on keytabs", () => {
  let otherProjectId = "";

  before(async () => {
    otherProjectId = (await server.admin.rest("POST", "/api/v1/projects", { name: "another" })).body.id;
  });

  const keytabIn = (project_id: string | null) => importKeytab(server.admin, newKeytab(), { project_id });

  for (const [role, permissions] of Object.entries(holds)) {
    it(`are open to ${role} at the organization exactly as far as the specification says`, async () => {
      const client = await server.as(`${role}-everywhere`, [role]);
      for (const operation of [...operations, ...everywhere]) {
        for (const project of [null, server.projectId]) {
          const { status, body } = await operation.call(client, await keytabIn(project));

          const why = `${role}: ${operation.name} ${JSON.stringify(body)}`;
          if (permissions.includes(operation.permission)) expect(status, why).to.be.within(200, 204);
          else {
            expect(status, why).to.equal(403);
            expect(body.error).to.deep.include({ code: "PERMISSION_DENIED" });
            expect(body.error.message).to.include(operation.permission);
          }
        }
      }
    });
  }

  for (const role of ["viewer", "editor", "admin"]) {
    it(`are open to ${role} at one project there, and neither elsewhere nor where there is no project`, async () => {
      const client = await server.as(`${role}-here`, { projectRoles: [{ project_id: server.projectId, role }] });
      for (const operation of operations) {
        const here = await operation.call(client, await keytabIn(server.projectId));
        const there = await operation.call(client, await keytabIn(otherProjectId));
        const nowhere = await operation.call(client, await keytabIn(null));

        const allowed = holds[role]?.includes(operation.permission) === true;
        if (allowed) expect(here.status, `${operation.name} here`).to.be.within(200, 204);
        else expect(here.status, `${operation.name} here`).to.equal(403);
        expect(there.status, `${operation.name} there`).to.equal(403);
        expect(nowhere.status, `${operation.name} nowhere`).to.equal(403);
      }
    });

    it(`of the whole organization are not open to ${role} at one project`, async () => {
      const client = await server.as(`${role}-whole`, { projectRoles: [{ project_id: server.projectId, role }] });

      const answers = await Promise.all([
        client.rest("POST", `${path}/refresh-compliance`, {}),
        client.rest("GET", `${path}/dashboard`),
      ]);

      expect(answers.map(({ status }) => status)).to.deep.equal([403, 403]);
    });
  }

  it("are refused and leave everything as it was to one without the permission, on the record", async () => {
    const nobody = await server.as("nobody", []);
    for (const operation of [...operations, ...everywhere]) {
      const keytab = await keytabIn(server.projectId);
      const stored = () => server.sql("select * from keytab order by id");
      const before = await stored();

      const { status, body } = await operation.call(nobody, keytab);

      expect(status, operation.name).to.equal(403);
      expect(await stored()).to.deep.equal(before);
      const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
      const expected = {
        outcome: "denied",
        reason: "PERMISSION_DENIED",
        actor_name: "nobody",
        action: operation.action,
      };
      expect(event, operation.name).to.include(expected);
    }
  });

  it("name the keytab and its project in the record of a denial, where the caller may in another one", async () => {
    const client = await server.as("elsewhere", { projectRoles: [{ project_id: otherProjectId, role: "admin" }] });
    const { id } = await keytabIn(server.projectId);

    const { body } = await client.rest("GET", at(id, "/download"));

    const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
    expect(event).to.include({ outcome: "denied", resource_id: id, project_id: server.projectId });
  });

  it("are refused to anybody without a token", async () => {
    const keytab = await keytabIn(null);
    for (const operation of [...operations, ...everywhere]) {
      const { status, body } = await operation.call(server.anonymous, keytab);

      expect(status, operation.name).to.equal(401);
      expect(body.error.code).to.equal("AUTH_REQUIRED");
    }
  });
});

describe("Another organization", () => {
  it("does not learn whether a keytab exists, whatever it asks, and changes nothing", async () => {
    const other = await server.otherOrganization();
    const keytab = await importKeytab(server.admin, newKeytab(), { project_id: server.projectId });
    for (const operation of operations) {
      const { status, body } = await operation.call(other.admin, keytab);

      expect(status, operation.name).to.equal(404);
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
      expect(JSON.stringify(body)).not.to.include(keytab.name);
    }
    expect((await other.admin.rest("GET", path)).body).to.deep.include({ data: [], total: 0 });
    expect((await server.admin.rest("GET", at(keytab.id))).body).to.deep.equal(keytab);
  });
});
