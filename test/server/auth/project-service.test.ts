import { expect } from "chai";
import { ProjectService } from "../../../gen/ts/holdfast/auth/v1/project_service_pb.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/projects";
const recordKeys = ["id", "organization_id", "name", "description", "key_scope", "created_at", "updated_at"];

const create = (fields: Record<string, unknown> = {}) =>
  server.admin.rest("POST", path, { name: `project-${Math.random()}`, ...fields });

describe("A project", () => {
  it("is created with 201, a Location and exactly its record", async () => {
    const { status, headers, body } = await create({ name: "payments", description: "d", key_scope: "environment" });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.have.all.keys(recordKeys);
    expect(body).to.include({ name: "payments", description: "d", key_scope: "environment" });
    expect((await server.admin.rest("GET", `${path}/${body.id}`)).body).to.deep.equal(body);
  });

  it("is of key_scope project and without description unless said", async () => {
    expect((await create()).body).to.include({ description: "", key_scope: "project" });
  });

  it("has a name of its own in the organization", async () => {
    const [{ body: one }, { body: other }] = [await create(), await create()];

    const answers = [
      await create({ name: one.name }),
      await server.admin.rest("PUT", `${path}/${other.id}`, { name: one.name }),
    ];

    for (const { status, body } of answers) {
      expect(status).to.equal(409);
      expect(body.error.details[0].field).to.equal("name");
    }
  });

  it("changes in what is mentioned and nothing else; null clears the description", async () => {
    const { body: created } = await create({ description: "d" });
    const put = async (body: unknown) => (await server.admin.rest("PUT", `${path}/${created.id}`, body)).body;

    const renamed = await put({ name: `${created.name}-new` });
    const cleared = await put({ description: null });

    expect(renamed).to.include({ name: `${created.name}-new`, description: "d", key_scope: "project" });
    expect(cleared).to.include({ name: `${created.name}-new`, description: "" });
  });

  it("changes over gRPC in what the mask names, whatever else is set", async () => {
    const { body: created } = await create();
    const client = server.admin.grpc(ProjectService);

    const changed = await client.updateProject(
      {
        id: created.id,
        name: "unmasked",
        description: "new",
        keyScope: "environment",
        updateMask: { paths: ["description"] },
      },
      server.admin.metadata(),
    );
    client.close();

    expect(changed).to.include({ name: created.name, description: "new", keyScope: "project" });
  });

  it("is refused with anything outside the limits, by name", async () => {
    const cases: [string, Record<string, unknown>][] = [
      ["name", { name: "" }],
      ["name", { name: "n".repeat(256) }],
      ["description", { description: "d".repeat(1025) }],
      ["key_scope", { key_scope: "planet" }],
    ];
    for (const [field, fields] of cases) {
      const { status, body } = await create(fields);
      expect(status, field).to.equal(400);
      expect(body.error.details[0].field).to.equal(field);
    }
  });

  it("with live secrets, archived ones too, is not removed: 409", async () => {
    const { body: project } = await create();
    const { id } = await server.secret({ project_id: project.id });

    const active = await server.admin.rest("DELETE", `${path}/${project.id}`);
    await server.admin.rest("POST", `/api/v1/secrets/${id}/archive`);
    const archived = await server.admin.rest("DELETE", `${path}/${project.id}`);

    for (const { status, body } of [active, archived]) {
      expect(status).to.equal(409);
      expect(body.error.code).to.equal("RESOURCE_CONFLICT");
    }
    expect((await server.admin.rest("POST", `/api/v1/secrets/${id}/restore`)).status).to.equal(200);
  });

  it("takes deleted and expired secrets, their keys and the roles at it along: 204, then 404", async () => {
    const { body: project } = await create();
    const member = await server.as("member", { projectRoles: [{ project_id: project.id, role: "viewer" }] });
    const secrets = [
      await server.secret({ project_id: project.id }),
      await server.secret({ project_id: project.id, ttl_hours: 1 }),
    ];
    const ids = secrets.map(({ id }) => id);
    await server.admin.rest("DELETE", `/api/v1/secrets/${ids[0]}`);
    await server.sql("update secret set expires_at = now() where id = $1", [ids[1]]);

    const first = await server.admin.rest("DELETE", `${path}/${project.id}`);
    const second = await server.admin.rest("DELETE", `${path}/${project.id}`);

    expect([first.status, second.status]).to.deep.equal([204, 404]);
    const left = await server.sql(
      `select 1 from secret where id = any($1) union all select 1 from secret_version where secret_id = any($1)
       union all select 1 from data_key where record_id = any($1)
       union all select 1 from role_binding where project_id = $2`,
      [ids, project.id],
    );
    expect(left).to.deep.equal([]);
    expect(
      (await server.admin.rest("GET", `/api/v1/machine-identities/${member.id}`)).body.project_roles,
    ).to.deep.equal([]);
  });

  it("is listed by name, in pages, to those who may read it and to no others", async () => {
    const { body: mine } = await create({ name: "listed-b" });
    await create({ name: "listed-a" });
    const member = await server.as("reader", { projectRoles: [{ project_id: mine.id, role: "viewer" }] });
    const nobody = await server.as("nobody", []);

    const all = await server.admin.rest("GET", `${path}?search=LISTED&per_page=1`);
    const own = await member.rest("GET", path);
    const none = await nobody.rest("GET", path);

    expect(all.body.data.map(({ name }: { name: string }) => name)).to.deep.equal(["listed-a"]);
    expect(all.body.pagination).to.deep.equal({ page: 1, per_page: 1, total: 2 });
    expect(all.headers.get("x-total-count")).to.equal("2");
    expect(own.body).to.deep.equal({ data: [mine], pagination: { page: 1, per_page: 25, total: 1 } });
    expect(none.status).to.equal(403);
  });

  it("is written by those who hold project:write there, and created by those who hold it at the organization", async () => {
    const [{ body: mine }, { body: other }] = [await create(), await create()];
    const owner = await server.as("owner", { projectRoles: [{ project_id: mine.id, role: "admin" }] });
    const editor = await server.as("an-editor", ["editor"]);

    expect((await owner.rest("PUT", `${path}/${mine.id}`, { description: "d" })).status).to.equal(200);
    expect((await owner.rest("PUT", `${path}/${mine.id.toUpperCase()}`, { description: "d" })).status).to.equal(200);
    expect((await owner.rest("PUT", `${path}/${other.id}`, { description: "d" })).status).to.equal(403);
    expect((await owner.rest("DELETE", `${path}/${other.id}`)).status).to.equal(403);
    expect((await owner.rest("POST", path, { name: "more" })).status).to.equal(403);
    expect((await editor.rest("POST", path, { name: "more" })).status).to.equal(403);
    expect((await editor.rest("GET", `${path}/${other.id}`)).status).to.equal(200);
  });
});
