import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/organizations";

const own = async () => (await server.admin.rest("GET", path)).body.data[0];

describe("An organization", () => {
  it("is created with 201, a Location and the credentials of its administrator, shown once", async () => {
    const { status, headers, body } = await server.admin.rest("POST", path, { name: "acme" });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.have.all.keys("id", "name", "created_at", "updated_at", "administrator");
    expect(body.administrator).to.have.all.keys("machine_identity_id", "client_id", "client_secret");
    const { client_id, client_secret } = body.administrator;
    const administrator = await server.login(client_id, client_secret);
    const { body: read } = await administrator.rest("GET", `${path}/${body.id}`);
    expect(read).to.have.all.keys("id", "name", "created_at", "updated_at", "password_policy", "session_policy");
    expect(read.name).to.equal("acme");
  });

  it("begins empty, with an administrator who may do everything, administer gateways too", async () => {
    const { admin } = await server.otherOrganization();

    const { body } = await admin.rest("GET", `/api/v1/machine-identities/${admin.id}`);

    expect(body.roles).to.have.members(["admin", "gateway:admin"]);
    expect((await admin.rest("GET", "/api/v1/admin/gateways")).status).to.equal(200);
    expect((await admin.rest("GET", "/api/v1/machine-identities")).body.pagination.total).to.equal(1);
  });

  it("keeps secrets under a key of its own", async () => {
    const { admin, projectId, organizationId } = await server.otherOrganization();
    const { id } = await server.secret({ project_id: projectId, value: "theirs" }, admin);

    const { body } = await admin.rest("GET", `/api/v1/secrets/${id}`);

    expect(body.value).to.equal("theirs");
    const keys = await server.sql("select 1 from organization_key where organization_id = $1", [organizationId]);
    expect(keys).to.have.length(1);
  });

  it("is created by administrators of the first organization only", async () => {
    const { admin: theirs } = await server.otherOrganization();
    const deputy = await server.as("deputy", ["admin"]);
    const editor = await server.as("editor", ["editor"]);

    expect((await deputy.rest("POST", path, { name: "by-deputy" })).status).to.equal(201);
    for (const outsider of [theirs, editor]) {
      const { status, body } = await outsider.rest("POST", path, { name: "by-outsider" });
      expect(status).to.equal(403);
      expect(body.error.code).to.equal("PERMISSION_DENIED");
    }
    expect(await server.sql("select 1 from organization where name = 'by-outsider'")).to.deep.equal([]);
  });

  it("has a name that no other has", async () => {
    const other = await server.otherOrganization("taken");

    const created = await server.admin.rest("POST", path, { name: "taken" });
    const renamed = await other.admin.rest("PUT", `${path}/${other.organizationId}`, { name: (await own()).name });

    for (const { status, body } of [created, renamed]) {
      expect(status).to.equal(409);
      expect(body.error.details[0].field).to.equal("name");
    }
  });

  it("is renamed by its administrators and by nobody else", async () => {
    const other = await server.otherOrganization();
    const theirViewer = await server.as("their-viewer", ["viewer"], other.admin);
    const target = `${path}/${other.organizationId}`;
    const name = `renamed-${Math.random()}`;

    expect((await theirViewer.rest("PUT", target, { name })).status).to.equal(403);
    expect((await server.admin.rest("PUT", target, { name })).status).to.equal(404);
    const { status, body } = await other.admin.rest("PUT", target, { name });
    expect(status).to.equal(200);
    expect(body.name).to.equal(name);
    expect((await other.admin.rest("PUT", target, { name: "" })).status).to.equal(400);
  });

  it("is the one item of its own list, for each of its identities", async () => {
    const nobody = await server.as("nobody", []);

    const { status, body } = await nobody.rest("GET", path);

    expect(status).to.equal(200);
    expect(body).to.deep.equal({ data: [await own()], pagination: { page: 1, per_page: 25, total: 1 } });
    expect((await nobody.rest("GET", `${path}?page=2`)).body.data).to.deep.equal([]);
  });
});
