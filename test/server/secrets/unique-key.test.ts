import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();

const create = (key: string, fields: Record<string, unknown> = {}) =>
  server.admin.rest("POST", "/api/v1/secrets", { project_id: server.projectId, key, value: "v", ...fields });

async function projectOf(keyScope: string): Promise<string> {
  const name = `project-${Math.random()}`;
  const { body } = await server.admin.rest("POST", "/api/v1/projects", { name, key_scope: keyScope });
  return body.id;
}

describe("A key in a project", () => {
  it("is unique: the second create is 409 and says which field", async () => {
    await create("twice");

    const { status, body } = await create("twice");

    expect(status).to.equal(409);
    expect(body.error.code).to.equal("RESOURCE_CONFLICT");
    expect(body.error.details).to.deep.equal([{ field: "key", message: "already exists in this project" }]);
  });

  it("is unique whatever the environment", async () => {
    await create("everywhere", { environment: "staging" });

    const { status } = await create("everywhere", { environment: "production" });

    expect(status).to.equal(409);
  });

  it("is told apart by case, and from its neighbours in other projects", async () => {
    await create("case");

    expect((await create("CASE")).status).to.equal(201);
    expect((await create("case", { project_id: await projectOf("project") })).status).to.equal(201);
  });

  it("stays taken while its secret is archived", async () => {
    const { body: secret } = await create("archived");
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/archive`);

    const { status } = await create("archived");

    expect(status).to.equal(409);
  });

  it("is free once its secret is deleted, and restoring that one is 409 while it is taken", async () => {
    const { body: first } = await create("reused");
    await server.admin.rest("DELETE", `/api/v1/secrets/${first.id}`);
    const { status, body: second } = await create("reused");

    const refused = await server.admin.rest("POST", `/api/v1/secrets/${first.id}/restore`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${second.id}`);
    const restored = await server.admin.rest("POST", `/api/v1/secrets/${first.id}/restore`);

    expect(status).to.equal(201);
    expect(refused.status).to.equal(409);
    expect(refused.body.error.details).to.deep.equal([{ field: "key", message: "already exists in this project" }]);
    expect(restored.status).to.equal(200);
  });
});

describe("A project with key_scope environment", () => {
  it("takes a key once for each environment, and once without", async () => {
    const project_id = await projectOf("environment");

    const statuses = [];
    for (const environment of ["staging", "production", null, "staging", "", "Staging"])
      statuses.push((await create("k", { project_id, environment })).status);

    expect(statuses).to.deep.equal([201, 201, 201, 409, 409, 201]);
  });

  it("cannot go back to one key per project while a key is used twice, and changes nothing then", async () => {
    const project_id = await projectOf("environment");
    await create("k", { project_id, environment: "staging" });
    const { body: second } = await create("k", { project_id, environment: "production" });

    const refused = await server.admin.rest("PUT", `/api/v1/projects/${project_id}`, { key_scope: "project" });
    const third = await create("k", { project_id, environment: "test" });
    await server.admin.rest("DELETE", `/api/v1/secrets/${second.id}`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${third.body.id}`);
    const accepted = await server.admin.rest("PUT", `/api/v1/projects/${project_id}`, { key_scope: "project" });

    expect(refused.status).to.equal(409);
    expect(refused.body.error.code).to.equal("RESOURCE_CONFLICT");
    expect(third.status).to.equal(201);
    expect(accepted.status).to.equal(200);
    expect(accepted.body.key_scope).to.equal("project");
    expect((await create("k", { project_id, environment: "production" })).status).to.equal(409);
    expect((await server.admin.rest("POST", `/api/v1/secrets/${second.id}/restore`)).status).to.equal(409);
  });

  it("can be chosen later, and applies to the secrets that are there", async () => {
    const project_id = await projectOf("project");
    await create("k", { project_id, environment: "staging" });

    const { status } = await server.admin.rest("PUT", `/api/v1/projects/${project_id}`, { key_scope: "environment" });

    expect(status).to.equal(200);
    expect((await create("k", { project_id, environment: "staging" })).status).to.equal(409);
    expect((await create("k", { project_id, environment: "production" })).status).to.equal(201);
  });
});
