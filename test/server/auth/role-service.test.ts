import { expect } from "chai";
import { permissions } from "../../../src/server/auth/roles.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/roles";
const recordKeys = ["id", "name", "description", "permissions", "built_in", "created_at", "updated_at"];

let count = 0;
const newName = () => `role-${(count += 1)}`;
const create = (fields: Record<string, unknown> = {}) =>
  server.admin.rest("POST", path, { name: newName(), permissions: ["secret:read"], ...fields });
const put = (id: string, body: unknown) => server.admin.rest("PUT", `${path}/${id}`, body);

describe("A role of an organization", () => {
  it("is created with 201 and a Location, and holds each permission once", async () => {
    const given = { name: "reader", description: "reads", permissions: ["secret:read", "keytab:read", "secret:read"] };

    const { status, headers, body } = await create(given);

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.have.all.keys(recordKeys);
    expect(body).to.deep.include({
      name: "reader",
      description: "reads",
      permissions: ["secret:read", "keytab:read"],
      built_in: false,
    });
    expect((await server.admin.rest("GET", `${path}/${body.id}`)).body).to.deep.equal(body);
  });

  it("has a name of its own in the organization, and none of a built-in role", async () => {
    const { body: role } = await create();
    const { body: other } = await create();
    const { admin: theirs } = await server.otherOrganization();

    const refused = [
      await create({ name: role.name }),
      await create({ name: "admin" }),
      await create({ name: "gateway:admin" }),
      await put(other.id, { name: role.name }),
      await put(other.id, { name: "viewer" }),
    ];
    const elsewhere = await theirs.rest("POST", path, { name: role.name });
    const unchanged = await put(other.id, { name: other.name });

    for (const { status, body } of refused) {
      expect(status).to.equal(409);
      expect(body.error.details[0].field).to.equal("name");
    }
    expect([elsewhere.status, unchanged.status]).to.deep.equal([201, 200]);
  });

  it("is refused with anything outside the limits, by name", async () => {
    const { body: role } = await create();
    const cases: [string, Record<string, unknown>][] = [
      ["name", { name: "" }],
      ["name", { name: "with space" }],
      ["name", { name: "-dash" }],
      ["name", { name: "n".repeat(256) }],
      ["description", { description: "d".repeat(1025) }],
      ["permissions[2]", { permissions: ["secret:read", "secret:read", "secret:everything"] }],
      ["permissions[0]", { permissions: ["gateway:admin"] }],
      ["permissions[0]", { permissions: ["toString"] }],
    ];
    for (const [field, fields] of cases) {
      const answers = [await create(fields), await put(role.id, fields)];

      for (const { status, body } of answers) {
        expect(status, field).to.equal(400);
        expect(body.error.details[0].field).to.equal(field);
      }
    }
  });

  it("changes in what is mentioned and nothing else; null clears the description", async () => {
    const { body: created } = await create({ description: "d" });
    const { updated_at: _, ...rest } = created;

    const { body: grown } = await put(created.id, { permissions: ["secret:read", "secret:write"] });
    const { body: cleared } = await put(created.id, { description: null, name: `${created.name}-new` });

    expect(grown).to.deep.include({ ...rest, permissions: ["secret:read", "secret:write"] });
    expect(cleared).to.deep.include({
      ...rest,
      name: `${created.name}-new`,
      description: "",
      permissions: grown.permissions,
    });
  });

  it("keeps every change of several that are made at once", async () => {
    for (let round = 0; round < 5; round += 1) {
      const { body: role } = await create();

      await Promise.all([
        put(role.id, { name: `${role.name}-new` }),
        put(role.id, { description: "new" }),
        put(role.id, { permissions: ["keytab:read"] }),
      ]);

      const { body } = await server.admin.rest("GET", `${path}/${role.id}`);
      expect(body).to.deep.include({ name: `${role.name}-new`, description: "new", permissions: ["keytab:read"] });
    }
  });

  it("that nobody holds is removed: 204, then 404", async () => {
    const { body: role } = await create();

    const first = await server.admin.rest("DELETE", `${path}/${role.id}`);
    const second = await server.admin.rest("DELETE", `${path}/${role.id}`);

    expect([first.status, second.status]).to.deep.equal([204, 404]);
  });

  it("is found by its id in capitals too", async () => {
    const { body: role } = await create();

    const { status } = await server.admin.rest("DELETE", `${path}/${role.id.toUpperCase()}`);

    expect(status).to.equal(204);
    expect((await server.admin.rest("GET", `${path}/${role.id}`)).status).to.equal(404);
  });

  it("is written by those who hold role:write, and seen by those who hold identity:read, at the organization", async () => {
    const { body: role } = await create();
    const at = `${path}/${role.id}`;
    const outsiders = [
      await server.as("an-editor", ["editor"]),
      await server.as("a-project-admin", { projectRoles: [{ project_id: server.projectId, role: "admin" }] }),
    ];
    for (const outsider of outsiders) {
      const answers = [
        await outsider.rest("POST", path, { name: newName() }),
        await outsider.rest("GET", path),
        await outsider.rest("GET", at),
        await outsider.rest("PUT", at, { description: "mine" }),
        await outsider.rest("DELETE", at),
      ];
      expect(answers.map(({ status }) => status)).to.deep.equal(Array(5).fill(403));
    }
  });

  it("is on record with what it holds", async () => {
    const { body: role } = await create();
    await put(role.id, { name: `${role.name}-new`, permissions: ["keytab:read"] });
    await server.admin.rest("DELETE", `${path}/${role.id}`);

    const events = await server.sql(
      "select action, resource_name, details from audit_event where resource_id = $1 order by occurred_at, id",
      [role.id],
    );
    expect(events.map(({ action, resource_name: name }) => `${action} ${name}`)).to.deep.equal([
      `role.create ${role.name}`,
      `role.update ${role.name}`,
      `role.delete ${role.name}-new`,
    ]);
    expect(JSON.stringify(events[0].details)).to.include("secret:read");
    expect(JSON.stringify(events[1].details)).to.include("keytab:read").and.include(`${role.name}-new`);
  });
});

describe("The list of roles", () => {
  it("begins with the built-in ones, which have no id, and goes on with the organization's own by name", async () => {
    const { admin: theirs } = await server.otherOrganization();
    for (const name of ["role-b", "role-a"]) await theirs.rest("POST", path, { name, permissions: ["secret:read"] });

    const { status, body } = await theirs.rest("GET", path);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("data");
    const names = body.data.map(({ name }: { name: string }) => name);
    const builtIn = ["admin", "gateway:admin", "editor", "viewer", "auditor", "agent", "gateway"];
    expect(names).to.deep.equal([...builtIn, "role-a", "role-b"]);
    const viewer = body.data[3];
    expect(viewer).to.have.all.keys(recordKeys);
    expect(viewer).to.deep.include({ id: null, built_in: true, description: "", created_at: null, updated_at: null });
    expect(viewer.permissions).to.include("secret:read").and.not.include("secret:write");
  });
});

describe("The list of permissions", () => {
  it("is the vocabulary in its order, for every identity", async () => {
    const nobody = await server.as("nobody", []);

    const { status, body } = await nobody.rest("GET", "/api/v1/permissions");

    expect([status, body]).to.deep.equal([200, { data: permissions }]);
  });
});

describe("Another organization's roles", () => {
  it("are not listed, are no roles to bind, and 404 whatever is asked of them", async () => {
    const { admin: eve } = await server.otherOrganization();
    const { body: role } = await create();
    const at = `${path}/${role.id}`;

    const answers = [
      await eve.rest("GET", at),
      await eve.rest("PUT", at, { permissions: [] }),
      await eve.rest("DELETE", at),
    ];
    const bound = await eve.rest("POST", "/api/v1/users", { username: "eves", roles: [role.name] });

    expect(answers.map(({ status }) => status)).to.deep.equal([404, 404, 404]);
    expect([bound.status, bound.body.error.details[0].field]).to.deep.equal([400, "roles[0]"]);
    expect(JSON.stringify((await eve.rest("GET", path)).body)).not.to.include(role.name);
    expect((await server.admin.rest("GET", at)).body).to.deep.equal(role);
  });
});
