import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { metadataKeys } from "./record-keys.ts";

const server = useServer();

const copy = (id: string, body: unknown, by = server.admin) => by.rest("POST", `/api/v1/secrets/${id}/copy`, body);
const get = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;

async function newProject(fields: Record<string, unknown> = {}): Promise<string> {
  const name = `project-${Math.random()}`;
  return (await server.admin.rest("POST", "/api/v1/projects", { name, ...fields })).body.id;
}

describe("CopySecret", () => {
  it("answers 201 with a Location, the metadata of the new secret and where it came from", async () => {
    const source = await server.secret();

    const { status, headers, body } = await copy(source.id, { target_project_id: await newProject() });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`/api/v1/secrets/${body.id}`);
    expect(body).to.have.all.keys(...metadataKeys, "copied_from");
    expect(body.copied_from).to.deep.equal({ secret_id: source.id, version: 1 });
    expect(body.id).not.to.equal(source.id);
  });

  it("copies value, type, description, tags, metadata and environment; not versions, expiry or rotation", async () => {
    const source = await server.secret({
      value: "one",
      type: "password",
      description: "d",
      tags: ["a", 'q"'],
      metadata: { owner: "payments" },
      environment: "production",
      ttl_hours: 5,
      rotation: { enabled: true },
    });
    await server.admin.rest("PUT", `/api/v1/secrets/${source.id}`, { value: "two" });
    const target_project_id = await newProject();

    const { body } = await copy(source.id, { target_project_id, change_reason: "new stage" });

    const { key, type, description, tags, metadata, environment } = source;
    const copied = { key, type, description, tags, metadata, environment, project_id: target_project_id };
    expect(body).to.deep.include({ ...copied, version: 1, expires_at: null });
    expect(body.rotation).to.deep.equal({
      enabled: false,
      interval_days: null,
      last_rotated: null,
      next_rotation: null,
    });
    expect((await get(body.id)).value).to.equal("two");
    const { body: versions } = await server.admin.rest("GET", `/api/v1/secrets/${body.id}/versions`);
    expect(versions.data).to.have.length(1);
    expect(versions.data[0]).to.include({ change_type: "initial", change_reason: "new stage" });
  });

  it("copies an earlier version when asked to, with a life of its own", async () => {
    const source = await server.secret({ value: "one" });
    await server.admin.rest("PUT", `/api/v1/secrets/${source.id}`, { value: "two" });

    const { body } = await copy(source.id, { key: `${source.key}-old`, version: 1, ttl_hours: 2 });

    expect(body.copied_from.version).to.equal(1);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).to.equal(2 * 3_600_000);
    expect((await get(body.id)).value).to.equal("one");
  });

  it("is independent of its source from then on", async () => {
    const source = await server.secret({ value: "one" });
    const { body } = await copy(source.id, { key: `${source.key}-copy` });

    await server.admin.rest("PUT", `/api/v1/secrets/${source.id}`, { value: "two" });
    await server.admin.rest("DELETE", `/api/v1/secrets/${source.id}/permanent`);

    expect(await get(body.id)).to.include({ value: "one", version: 1 });
  });

  it("takes each alias of its fields", async () => {
    const project = await newProject();
    const { id } = await server.secret();

    const aliases: [Record<string, unknown>, Record<string, unknown>][] = [
      [
        { project_id: project, key: "a" },
        { key: "a", project_id: project },
      ],
      [
        { targetProjectId: project, new_key: "b" },
        { key: "b", project_id: project },
      ],
      [{ project_id: project, target_key: "c" }, { key: "c" }],
      [{ project_id: project, name: "d" }, { key: "d" }],
      [
        { environment: "staging", name: "e" },
        { key: "e", environment: "staging" },
      ],
      [
        { targetEnvironment: "test", name: "f" },
        { key: "f", environment: "test" },
      ],
    ];
    for (const [request, expected] of aliases) {
      const { status, body } = await copy(id, request);
      expect(status, JSON.stringify(request)).to.equal(201);
      expect(body).to.include(expected);
    }
  });

  it("needs at least one target, and names what is outside the limits", async () => {
    const { id } = await server.secret();

    for (const body of [undefined, {}, { version: 1 }, { ttl_hours: 5 }, { key: null }]) {
      expect((await copy(id, body)).status, JSON.stringify(body)).to.equal(400);
    }
    const cases: [string, Record<string, unknown>][] = [
      ["key", { key: "" }],
      ["key", { key: " padded " }],
      ["key", { key: "k".repeat(256) }],
      ["target_environment", { target_environment: "e".repeat(51) }],
      ["target_project_id", { target_project_id: "default" }],
      ["ttl_hours", { key: "k", ttl_hours: 8761 }],
      ["version", { key: "k", version: 0 }],
    ];
    for (const [field, request] of cases) {
      const { status, body } = await copy(id, request);
      expect(status, field).to.equal(400);
      expect(body.error.details[0].field).to.equal(field);
    }
  });

  it("answers 404 for an unknown source, version or project", async () => {
    const { id } = await server.secret();
    const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

    expect((await copy(unknown, { key: "k" })).status).to.equal(404);
    expect((await copy(id, { key: "k", version: 2 })).body.error.details[0].field).to.equal("version");
    const { status, body } = await copy(id, { target_project_id: unknown });
    expect(status).to.equal(404);
    expect(body.error.details[0].field).to.equal("target_project_id");
  });

  it("needs secret:read here and secret:write there, and says where it lacks it", async () => {
    const [here, there] = [await newProject(), await newProject()];
    const source = await server.secret({ project_id: here });
    const roles = (a: string, b: string) => ({
      projectRoles: [
        { project_id: here, role: a },
        { project_id: there, role: b },
      ],
    });
    const both = await server.as("copier", roles("viewer", "editor"));
    const reader = await server.as("reader", roles("viewer", "viewer"));
    const writer = await server.as("writer", { projectRoles: [{ project_id: there, role: "editor" }] });

    expect((await copy(source.id, { target_project_id: there }, reader)).status).to.equal(403);
    expect((await copy(source.id, { target_project_id: there }, writer)).status).to.equal(403);
    expect((await copy(source.id, { key: "same-project" }, both)).status).to.equal(403);
    expect((await copy(source.id, { target_project_id: there }, both)).status).to.equal(201);
  });

  it("is recorded as a copy of the new secret and as a read of the source's value", async () => {
    const source = await server.secret();

    const { body } = await copy(source.id, { key: `${source.key}-copy` });

    const [copied] = await server.sql("select * from audit_event where resource_id = $1", [body.id]);
    expect(copied).to.include({ action: "secret.copy", outcome: "success", resource_name: body.key });
    expect(JSON.parse(copied.details)).to.deep.equal({ source_id: source.id, source_version: 1 });
    const reads = await server.sql(
      "select details from audit_event where resource_id = $1 and action = 'secret.read_value'",
      [source.id],
    );
    expect(reads.map(({ details }) => JSON.parse(details))).to.deep.equal([{ version: 1 }]);
  });
});

describe("The key of a copy", () => {
  it("is the one that was given", async () => {
    const source = await server.secret();

    const { body } = await copy(source.id, { key: "given", target_environment: "staging" });

    expect(body).to.include({ key: "given", name: "given", environment: "staging" });
  });

  it("is the source's in another project", async () => {
    const source = await server.secret({ environment: "production" });

    const { body } = await copy(source.id, { project_id: await newProject(), environment: "staging" });

    expect(body).to.include({ key: source.key, environment: "staging" });
  });

  it("in the same project has the environment behind it, in capitals and without other characters", async () => {
    const source = await server.secret({ key: "DB_PASSWORD" });

    const { body: staging } = await copy(source.id, { target_environment: "staging" });
    const { body: europe } = await copy(source.id, { target_environment: "eu-west 1/β🔑" });

    expect(staging).to.include({ key: "DB_PASSWORD_STAGING", name: "DB_PASSWORD_STAGING", environment: "staging" });
    expect(europe.key).to.equal("DB_PASSWORD_EU_WEST_1___");
  });

  it("is 409 in the same project without an environment to tell it apart", async () => {
    const source = await server.secret({ environment: "production" });

    const { status } = await copy(source.id, { target_environment: "" });

    expect(status).to.equal(409);
  });

  it("is 409 for every other collision: given, derived, or in another project", async () => {
    const source = await server.secret({ key: "TAKEN" });
    const project_id = await newProject();
    await server.secret({ key: "TAKEN", project_id });
    await server.secret({ key: "TAKEN_STAGING" });

    const requests = [{ key: "TAKEN" }, { target_environment: "staging" }, { target_project_id: project_id }];
    for (const request of requests) {
      const { status, body } = await copy(source.id, request);
      expect(status, JSON.stringify(request)).to.equal(409);
      expect(body.error.details[0].field).to.equal("key");
    }
  });

  it("is never longer than a key may be", async () => {
    const source = await server.secret({ key: "k".repeat(250) });

    const { status, body } = await copy(source.id, { target_environment: "staging" });

    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("key");
  });

  it("stays as it is where key_scope is environment", async () => {
    const project_id = await newProject({ key_scope: "environment" });
    const source = await server.secret({ key: "DB_PASSWORD", project_id, environment: "production" });

    const { body } = await copy(source.id, { target_environment: "staging" });
    const { status } = await copy(source.id, { target_environment: "production" });

    expect(body).to.include({ key: "DB_PASSWORD", environment: "staging" });
    expect(status).to.equal(409);
  });
});
