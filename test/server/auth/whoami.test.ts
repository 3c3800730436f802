import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/whoami";

describe("GET /whoami", () => {
  it("says who calls, with what, and what they hold where", async () => {
    const caller = await server.as("both", {
      roles: ["auditor"],
      projectRoles: [{ project_id: server.projectId, role: "viewer" }],
    });

    const { status, body } = await caller.rest("GET", path);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(
      "id type name organization_id credential roles permissions project_permissions can".split(" "),
    );
    expect(body).to.deep.include({
      id: caller.id,
      type: "machine_identity",
      name: "both",
      roles: ["auditor"],
      can: [],
    });
    expect(body.permissions).to.include("audit:read").and.not.to.include("secret:read");
    expect(body.project_permissions).to.have.length(1);
    expect(body.project_permissions[0].project_id).to.equal(server.projectId);
    expect(body.project_permissions[0].permissions).to.include("secret:read");
    expect(body.credential.type).to.equal("access_token");
  });

  it("answers beforehand what a call would be answered", async () => {
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: "other" });
    const { id: readable } = await server.secret();
    const { id: hidden } = await server.secret({ project_id: other.id });
    const caller = await server.as("asker", { projectRoles: [{ project_id: server.projectId, role: "viewer" }] });
    const ask = async (query: string) =>
      (await caller.rest("GET", `${path}?${query}`)).body.can.map(({ allowed }: { allowed: boolean }) => allowed);

    expect(await ask(`can=secret:read&can=secret:write&project_id=${server.projectId}`)).to.deep.equal([true, false]);
    expect(await ask(`can=secret:read&project_id=${other.id}`)).to.deep.equal([false]);
    expect(await ask("can=secret:read")).to.deep.equal([false]);
    expect((await caller.rest("GET", `/api/v1/secrets/${readable}`)).status).to.equal(200);
    expect((await caller.rest("GET", `/api/v1/secrets/${hidden}`)).status).to.equal(403);
  });

  it("answers for the role gateway:admin as for a permission", async () => {
    const viewer = await server.as("no-gateway", ["viewer"]);

    expect((await server.admin.rest("GET", `${path}?can=gateway:admin`)).body.can[0].allowed).to.equal(true);
    expect((await viewer.rest("GET", `${path}?can=gateway:admin`)).body.can[0].allowed).to.equal(false);
  });

  it("refuses questions about what there is not", async () => {
    const { projectId: theirs } = await server.otherOrganization();

    const unknown = await server.admin.rest("GET", `${path}?can=secret:read&can=secret:eat`);
    const foreign = await server.admin.rest("GET", `${path}?can=secret:read&project_id=${theirs}`);

    expect([unknown.status, unknown.body.error.details[0].field]).to.deep.equal([400, "can[1]"]);
    expect([foreign.status, foreign.body.error.details[0].field]).to.deep.equal([404, "project_id"]);
  });
});

describe("A 403", () => {
  it("names the missing permission and the project, and nothing of other tenants", async () => {
    const { id } = await server.secret();
    const viewer = await server.as("explained", { projectRoles: [{ project_id: server.projectId, role: "viewer" }] });

    const { body } = await viewer.rest("DELETE", `/api/v1/secrets/${id}`);
    const inProject = await viewer.rest("PUT", `/api/v1/secrets/${id}`, { description: "d" });

    expect(body.error.message).to.equal("permission secret:delete is required");
    expect(inProject.body.error.message).to.equal("permission secret:write is required");
  });
});
