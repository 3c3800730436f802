import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();
const roles = "/api/v1/roles";

let count = 0;
const newName = (kind: string) => `${kind}-${(count += 1)}`;
const newRole = async (...permissions: string[]) =>
  (await server.admin.rest("POST", roles, { name: newName("role"), permissions })).body;
const change = (id: string, body: unknown) => server.admin.rest("PUT", `${roles}/${id}`, body);
const statusOf = async (client: Client, method: string, path: string, body?: unknown) =>
  (await client.rest(method, path, body)).status;

describe("A role that an organization made", () => {
  it("gives its permissions at the organization, to machine identities and users", async () => {
    const role = await newRole("secret:read");
    const { id } = await server.secret();
    const holders = [
      await server.as(newName("identity"), [role.name]),
      await server.user(newName("user"), { roles: [role.name] }),
    ];
    for (const holder of holders) {
      expect(await statusOf(holder, "GET", `/api/v1/secrets/${id}`)).to.equal(200);
      expect(await statusOf(holder, "DELETE", `/api/v1/secrets/${id}`)).to.equal(403);
    }
  });

  it("gives them at one project only where it is bound there", async () => {
    const role = await newRole("secret:read");
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: newName("project") });
    const [here, there] = [await server.secret(), await server.secret({ project_id: other.id })];
    const projectRoles = [{ project_id: other.id, role: role.name }];
    const holder = await server.as(newName("identity"), { projectRoles });

    expect(await statusOf(holder, "GET", `/api/v1/secrets/${there.id}`)).to.equal(200);
    expect(await statusOf(holder, "GET", `/api/v1/secrets/${here.id}`)).to.equal(403);
    const { body } = await server.admin.rest("GET", `/api/v1/machine-identities/${holder.id}`);
    expect(body.project_roles).to.deep.equal(projectRoles);
  });

  it("gives the permissions of all roles together", async () => {
    const [reads, writes] = [await newRole("project:read"), await newRole("project:write")];
    const holder = await server.as(newName("identity"), [reads.name, writes.name]);

    expect(await statusOf(holder, "GET", "/api/v1/projects")).to.equal(200);
    expect(await statusOf(holder, "POST", "/api/v1/projects", { name: newName("project") })).to.equal(201);
  });

  it("that changes is another for everybody who holds it, on every replica, with the next call", async () => {
    const replica = await server.startReplica();
    const role = await newRole("project:read");
    const here = await server.as(newName("identity"), [role.name]);
    const there = new Client(urlOf(replica), (await server.user(newName("user"), { roles: [role.name] })).token);
    const see = async () => [
      await statusOf(here, "GET", "/api/v1/projects"),
      await statusOf(there, "GET", "/api/v1/projects"),
    ];
    const before = await see();

    await change(role.id, { permissions: [] });
    const without = await see();
    await change(role.id, { permissions: ["project:read"] });
    const again = await see();

    expect([before, without, again]).to.deep.equal([
      [200, 200],
      [403, 403],
      [200, 200],
    ]);
  });

  it("that is renamed is still held, under its new name, here and at projects", async () => {
    const role = await newRole("project:read");
    const projectRoles = [{ project_id: server.projectId, role: role.name }];
    const holder = await server.as(newName("identity"), { roles: ["viewer", role.name], projectRoles });

    const { body: renamed } = await change(role.id, { name: newName("renamed") });

    expect(await statusOf(holder, "GET", "/api/v1/projects")).to.equal(200);
    const { body } = await server.admin.rest("GET", `/api/v1/machine-identities/${holder.id}`);
    expect(body.roles).to.deep.equal(["viewer", renamed.name]);
    expect(body.project_roles).to.deep.equal([{ project_id: server.projectId, role: renamed.name }]);
  });

  it("that is renamed leaves a role of the same name in another organization alone", async () => {
    const role = await newRole("project:read");
    const { admin: theirs } = await server.otherOrganization();
    await theirs.rest("POST", roles, { name: role.name, permissions: ["secret:read"] });
    const holder = await server.as(newName("identity"), [role.name], theirs);

    await change(role.id, { name: newName("renamed") });

    const { body } = await theirs.rest("GET", `/api/v1/machine-identities/${holder.id}`);
    expect(body.roles).to.deep.equal([role.name]);
  });

  it("is not removed while it is bound anywhere, at the organization or at a project", async () => {
    const role = await newRole("project:read");
    const projectRoles = [{ project_id: server.projectId, role: role.name }];
    for (const given of [{ roles: [role.name] }, { project_roles: projectRoles }]) {
      const { body: user } = await server.admin.rest("POST", "/api/v1/users", { username: newName("user"), ...given });

      const refused = await server.admin.rest("DELETE", `${roles}/${role.id}`);
      await server.admin.rest("DELETE", `/api/v1/users/${user.id}`);

      expect([refused.status, refused.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    }
    expect(await statusOf(server.admin, "DELETE", `${roles}/${role.id}`)).to.equal(204);
  });

  it("is never left bound under a name that is gone, however a removal or a new name races with a binding", async () => {
    for (let round = 0; round < 6; round += 1) {
      const role = await newRole("project:read");
      const alter = () =>
        round % 2 === 0
          ? server.admin.rest("DELETE", `${roles}/${role.id}`)
          : change(role.id, { name: newName("renamed") });
      const bind = () =>
        server.admin.rest("POST", "/api/v1/machine-identities", { name: newName("identity"), roles: [role.name] });

      const [altered, ...bound] = await Promise.all([alter(), bind(), bind()]);

      expect(altered.status).to.be.oneOf([200, 204, 409]);
      for (const { status } of bound) expect(status).to.be.oneOf([201, 400]);
    }
    const builtIn = "admin gateway:admin editor viewer auditor agent gateway".split(" ");
    const lost = await server.sql(
      `select b.role from role_binding b where b.role <> all($1)
         and not exists (select 1 from role r where r.organization_id = b.organization_id and r.name = b.role)`,
      [builtIn],
    );
    expect(lost).to.deep.equal([]);
  });
});
