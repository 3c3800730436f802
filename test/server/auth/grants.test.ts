import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/machine-identities";
const users = "/api/v1/users";
const roles = "/api/v1/roles";

describe("Nobody grants what they lack", () => {
  /** Holds the role admin, and so may manage identities, but not the role gateway:admin. */
  let deputy: Client;
  let deputysOwn = "";

  before(async () => {
    deputy = await server.as("deputy", ["admin"]);
    deputysOwn = (await deputy.rest("POST", path, { name: "deputys-own" })).body.id;
  });

  const bindings = () => server.sql("select identity_id, role, project_id from role_binding order by id");

  async function refuses(answer: ReturnType<Client["rest"]>, needs: string): Promise<void> {
    const { status, body } = await answer;
    expect(status, JSON.stringify(body)).to.equal(403);
    expect(body.error.code).to.equal("PERMISSION_DENIED");
    expect(body.error.message).to.include(needs);
  }

  it("to a new identity", async () => {
    const before = await bindings();

    await refuses(deputy.rest("POST", path, { name: "x", roles: ["gateway:admin"] }), "gateway:admin");
    await refuses(deputy.rest("POST", path, { name: "x", roles: ["viewer", "gateway:admin"] }), "gateway:admin");

    expect(await bindings()).to.deep.equal(before);
    expect((await server.admin.rest("GET", `${path}?search=x`)).body.data).to.deep.equal([]);
  });

  it("to an identity that is there, or to themselves", async () => {
    const before = await bindings();

    await refuses(deputy.rest("PUT", `${path}/${deputysOwn}`, { roles: ["gateway:admin"] }), "gateway:admin");
    await refuses(deputy.rest("PUT", `${path}/${deputy.id}`, { roles: ["admin", "gateway:admin"] }), "gateway:admin");

    expect(await bindings()).to.deep.equal(before);
  });

  it("to themselves by taking over one who has more: by a client secret, a change, or a removal", async () => {
    const { body: secrets } = await server.admin.rest("GET", `${path}/${server.admin.id}/client-secrets`);
    const administrator = `${path}/${server.admin.id}`;

    await refuses(deputy.rest("POST", `${administrator}/client-secrets`, {}), "gateway:admin");
    await refuses(deputy.rest("PUT", administrator, { name: "mine" }), "gateway:admin");
    await refuses(deputy.rest("PUT", administrator, { roles: ["viewer"] }), "gateway:admin");
    await refuses(deputy.rest("DELETE", administrator), "gateway:admin");
    await refuses(deputy.rest("DELETE", `${administrator}/client-secrets/${secrets.data[0].id}`), "gateway:admin");

    const { body } = await server.admin.rest("GET", `${administrator}/client-secrets`);
    expect(body).to.deep.equal(secrets);
  });

  it("nor by disabling, enabling or resetting them, be it a user or a machine identity", async () => {
    const { body: user } = await server.admin.rest("POST", users, { username: "boss", roles: ["gateway:admin"] });
    const stored = async () => ({
      user: await server.sql("select * from user_account order by id"),
      machines: await server.sql("select * from machine_identity order by id"),
      bindings: await bindings(),
    });
    const before = await stored();

    for (const verb of ["disable", "enable", "reset-enrollment"]) {
      await refuses(deputy.rest("POST", `${users}/${user.id}/${verb}`, {}), "gateway:admin");
    }
    for (const verb of ["disable", "enable"]) {
      await refuses(deputy.rest("POST", `${path}/${server.admin.id}/${verb}`, {}), "gateway:admin");
    }
    await refuses(deputy.rest("PUT", `${users}/${user.id}`, { display_name: "mine" }), "gateway:admin");
    await refuses(deputy.rest("PUT", `${users}/${user.id}`, { roles: [] }), "gateway:admin");
    await refuses(deputy.rest("DELETE", `${users}/${user.id}`), "gateway:admin");

    expect(await stored()).to.deep.equal(before);
  });

  it("to users, new or there already", async () => {
    const { body: user } = await deputy.rest("POST", users, { username: "deputys-user" });
    const before = await bindings();

    await refuses(deputy.rest("POST", users, { username: "x", roles: ["gateway:admin"] }), "gateway:admin");
    await refuses(deputy.rest("PUT", `${users}/${user.id}`, { roles: ["gateway:admin"] }), "gateway:admin");

    expect(await bindings()).to.deep.equal(before);
    expect((await server.admin.rest("GET", `${users}?search=x`)).body.data).to.deep.equal([]);
  });

  it("but grants all that they hold, at the organization and at projects", async () => {
    const { status, body } = await deputy.rest("POST", path, {
      name: "granted",
      roles: ["admin", "editor", "viewer", "auditor"],
      project_roles: [{ project_id: server.projectId, role: "admin" }],
    });

    expect(status).to.equal(201);
    expect(body.roles).to.deep.equal(["admin", "editor", "viewer", "auditor"]);
    expect((await deputy.rest("POST", `${path}/${body.id}/client-secrets`, {})).status).to.equal(201);
  });

  it("except what agents and gateways hold, which whoever manages identities gives", async () => {
    const { status } = await deputy.rest("POST", path, { name: "an-agent", roles: ["agent", "gateway"] });

    expect(status).to.equal(201);
  });

  it("and loses the power with the role, at once", async () => {
    const former = await server.as("former", ["admin"]);
    await server.admin.rest("PUT", `${path}/${former.id}`, { roles: ["editor"] });

    await refuses(former.rest("POST", path, { name: "late" }), "identity:write");
  });

  it("in another organization than the first, whose first administrator grants gateway:admin, and a second one does not", async () => {
    const { admin: first } = await server.otherOrganization();
    const second = await server.as("second", ["admin"], first);

    await refuses(second.rest("POST", path, { name: "x", roles: ["gateway:admin"] }), "gateway:admin");
    expect((await first.rest("POST", path, { name: "x", roles: ["gateway:admin"] })).status).to.equal(201);
  });

  it("and each refusal is on record with who tried", async () => {
    const { body } = await deputy.rest("POST", path, { name: "x", roles: ["gateway:admin"] });

    const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
    expect(event).to.include({ action: "machine_identity.create", outcome: "denied", actor_name: "deputy" });
    expect(event.reason).to.equal("PERMISSION_DENIED");
  });
});

describe("Nobody grants what they lack through a role of the organization's own", () => {
  /** May manage identities and roles, and read secrets. */
  let clerk: Client;
  let granted = 0;
  const newRole = async (...permissions: string[]) =>
    (await server.admin.rest("POST", roles, { name: `role-${(granted += 1)}`, permissions })).body;

  before(async () => {
    const clerks = await newRole("identity:read", "identity:write", "role:write", "secret:read");
    clerk = await server.as("clerk", [clerks.name]);
  });

  async function refuses(answer: ReturnType<Client["rest"]>, permission: string): Promise<void> {
    const { status, body } = await answer;
    expect(status, JSON.stringify(body)).to.equal(403);
    expect(body.error.message).to.include(`permission ${permission} is required`);
  }

  const stored = async () => ({
    roles: await server.sql("select * from role order by id"),
    bindings: await server.sql("select * from role_binding order by id"),
  });

  it("by making one", async () => {
    const before = await stored();

    await refuses(
      clerk.rest("POST", roles, { name: "x", permissions: ["secret:read", "secret:write"] }),
      "secret:write",
    );

    expect(await stored()).to.deep.equal(before);
  });

  it("by adding to one, their own or another", async () => {
    const role = await newRole("secret:read");
    const [{ role: clerks }] = await server.sql("select role from role_binding where identity_id = $1", [clerk.id]);
    const { body: list } = await server.admin.rest("GET", roles);
    const own = list.data.find(({ name }: { name: string }) => name === clerks);
    const before = await stored();

    for (const { id, permissions } of [role, own]) {
      const more = { permissions: [...permissions, "secret:write"] };
      await refuses(clerk.rest("PUT", `${roles}/${id}`, more), "secret:write");
    }

    expect(await stored()).to.deep.equal(before);
  });

  it("nor takes it away, by changing, renaming or removing one that holds more than they do", async () => {
    const role = await newRole("secret:read", "secret:write");
    const before = await stored();

    await refuses(clerk.rest("PUT", `${roles}/${role.id}`, { permissions: ["secret:read"] }), "secret:write");
    await refuses(clerk.rest("PUT", `${roles}/${role.id}`, { name: "mine" }), "secret:write");
    await refuses(clerk.rest("PUT", `${roles}/${role.id}`, { description: "mine" }), "secret:write");
    await refuses(clerk.rest("DELETE", `${roles}/${role.id}`), "secret:write");

    expect(await stored()).to.deep.equal(before);
  });

  it("by binding one, at the organization or at a project, to a new identity or one that is there", async () => {
    const role = await newRole("secret:write");
    const { body: user } = await clerk.rest("POST", users, { username: "clerks-user" });
    const { body: machine } = await clerk.rest("POST", path, { name: "clerks-machine" });
    const before = await stored();

    for (const given of [
      { roles: [role.name] },
      { project_roles: [{ project_id: server.projectId, role: role.name }] },
    ]) {
      await refuses(clerk.rest("POST", users, { username: "x", ...given }), "secret:write");
      await refuses(clerk.rest("POST", path, { name: "x", ...given }), "secret:write");
      await refuses(clerk.rest("PUT", `${users}/${user.id}`, given), "secret:write");
      await refuses(clerk.rest("PUT", `${path}/${machine.id}`, given), "secret:write");
      await refuses(clerk.rest("PUT", `${path}/${clerk.id}`, given), "secret:write");
    }

    expect(await stored()).to.deep.equal(before);
  });

  it("by taking over one who holds it", async () => {
    const role = await newRole("secret:write");
    const { body: user } = await server.admin.rest("POST", users, { username: "writer", roles: [role.name] });
    const { body: machine } = await server.admin.rest("POST", path, {
      name: "writer",
      project_roles: [{ project_id: server.projectId, role: role.name }],
    });

    await refuses(clerk.rest("POST", `${users}/${user.id}/reset-enrollment`, {}), "secret:write");
    await refuses(clerk.rest("POST", `${path}/${machine.id}/client-secrets`, {}), "secret:write");
  });

  it("but they grant all that they hold, and what agents and gateways hold", async () => {
    const answers = [
      await clerk.rest("POST", roles, { name: "readers", permissions: ["secret:read", "agent:report"] }),
      await clerk.rest("POST", users, { username: "reader", roles: ["readers"] }),
    ];

    expect(answers.map(({ status }) => status)).to.deep.equal([201, 201]);
  });

  it("and who may not manage identities puts nothing into a role that agents and gateways hold", async () => {
    const { name } = await newRole("role:write", "secret:read");
    const roleWriter = await server.as("role-writer", [name]);

    await refuses(roleWriter.rest("POST", roles, { name: "y", permissions: ["agent:report"] }), "agent:report");
    expect((await roleWriter.rest("POST", roles, { name: "y", permissions: ["secret:read"] })).status).to.equal(201);
  });
});
