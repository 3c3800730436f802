import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { fullTemplate, type TemplateRecord, Templates, templatesPath } from "./templates.ts";

const server = useServer();
const templates = new Templates(server);

describe("CreateRotationTemplate", () => {
  it("answers 201 with the record, where it is, and what was given", async () => {
    const name = `template-${randomUUID()}`;
    const { status, headers, body } = await templates.post({ name, project_id: server.projectId, ...fullTemplate });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(templatesPath(body.id));
    const { id, organization_id, created_at, updated_at, ...rest } = body;
    expect(rest).to.deep.equal({
      name,
      project_id: server.projectId,
      ...fullTemplate,
      is_default: false,
      created_by: server.admin.id,
    });
    expect(updated_at).to.equal(created_at);
    const [organization] = await server.sql("select id from organization");
    expect(organization_id).to.equal(organization.id);
    expect(await templates.get(id)).to.deep.equal(body);
  });

  it("takes a name alone: the rest is null, empty or local", async () => {
    const body = await templates.create();

    expect(body).to.deep.include({
      description: "",
      project_id: null,
      rotation_interval_days: null,
      lead_time_days: null,
      grace_period_days: null,
      secret_custody_mode: "local",
      is_default: false,
    });
  });

  const limits: [field: string, taken: unknown[], refused: unknown[]][] = [
    ["name", ["x", "ü".repeat(255)], ["", "ü".repeat(256), undefined, null, 5]],
    ["description", ["", "ü".repeat(1024), null], ["ü".repeat(1025), 5]],
    ["rotation_interval_days", [1, 3650, "30", null], [0, 3651, -1, 1.5, "", true]],
    ["lead_time_days", [0, 365, null], [-1, 366]],
    ["grace_period_days", [0, 365, null], [-1, 366]],
    ["secret_custody_mode", ["local", "transient", "delegated", null], ["", "LOCAL", "remote"]],
    ["is_default", [false, null], ["yes", 1]],
    ["project_id", [null], ["", "nonsense"]],
    ["organization_id", [null], ["", "nonsense"]],
  ];
  for (const [field, taken, refused] of limits) {
    it(`keeps the limits of ${field}, and names it`, async () => {
      for (const value of taken) {
        const { status, body } = await templates.post({ [field]: value });
        expect(status, JSON.stringify([value, body])).to.equal(201);
      }
      for (const value of refused) {
        const { status, body } = await templates.post({ [field]: value });
        expect([status, body.error.code, body.error.details[0]?.field], JSON.stringify(value)).to.deep.equal([
          400,
          "VALIDATION_ERROR",
          field,
        ]);
      }
    });
  }

  it("names every field that is wrong", async () => {
    const { body } = await templates.post({ name: "", lead_time_days: 400, secret_custody_mode: "x" });

    expect(body.error.details.map(({ field }: { field: string }) => field)).to.have.members([
      "name",
      "lead_time_days",
      "secret_custody_mode",
    ]);
  });

  it("refuses a name that the organization has already, and not one that another has", async () => {
    const { name } = await templates.create();
    const { admin: other } = await server.otherOrganization();

    const again = await templates.post({ name });
    const elsewhere = await templates.post({ name }, other);

    expect([again.status, again.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    expect(again.body.error.details).to.deep.equal([{ field: "name", message: "already exists in this organization" }]);
    expect(elsewhere.status).to.equal(201);
  });

  it("applies nothing to any rotation configuration", async () => {
    const { id } = await server.secret({ rotation: { enabled: true, interval_days: 5 } });
    const config = () => server.admin.rest("GET", `/api/v1/secrets/${id}/rotation-config`);
    const { body: before } = await config();

    const { id: template } = await templates.create({
      project_id: server.projectId,
      is_default: true,
      ...fullTemplate,
    });
    await templates.put(template, { rotation_interval_days: 1 });

    expect((await config()).body).to.deep.equal(before);
  });

  it("is recorded with the template's id and name", async () => {
    const { id, name } = await templates.create({ project_id: server.projectId });
    await templates.put(id, { description: "d" });
    await templates.delete(id);

    const events = await server.sql(
      "select action, outcome, resource_type, resource_name, project_id from audit_event where resource_id = $1 order by sequence",
      [id],
    );
    const expected = { outcome: "success", resource_type: "rotation_template", resource_name: name };
    expect(events).to.deep.equal(
      ["create", "update", "delete"].map((verb) => ({
        action: `rotation_template.${verb}`,
        ...expected,
        project_id: server.projectId,
      })),
    );
  });
});

describe("ListRotationTemplates", () => {
  it("gives {data, pagination}: the default first, then by name", async () => {
    const { admin } = await server.otherOrganization();
    for (const name of ["b", "d", "a", "c"]) await templates.create({ name, is_default: name === "c" }, admin);

    const { status, headers, body } = await admin.rest("GET", `${templatesPath()}?page=1&per_page=3`);
    const { body: second } = await admin.rest("GET", `${templatesPath()}?page=2&limit=3`);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("data", "pagination");
    expect([...body.data, ...second.data].map(({ name }: TemplateRecord) => name)).to.deep.equal(["c", "a", "b", "d"]);
    expect(body.pagination).to.deep.equal({ page: 1, per_page: 3, total: 4 });
    expect(headers.get("x-total-count")).to.equal("4");
  });

  it("selects by project, and by part of a name whatever its case", async () => {
    const { admin, projectId } = await server.otherOrganization();
    await templates.create({ name: "Quarterly 100%", project_id: projectId }, admin);
    await templates.create({ name: "yearly" }, admin);
    const names = async (query: string) => (await templates.list(admin, query)).map(({ name }) => name);

    expect(await names("&search=LY%20100%25")).to.deep.equal(["Quarterly 100%"]);
    expect(await names("&search=%25")).to.deep.equal(["Quarterly 100%"]);
    expect(await names(`&project_id=${projectId}`)).to.deep.equal(["Quarterly 100%"]);
    expect(await names("&search=rly")).to.deep.equal(["Quarterly 100%", "yearly"]);
  });

  it("is 400 for what cannot be a page, and 404 with the field for a project that is not there or not ours", async () => {
    const { projectId: theirs } = await server.otherOrganization();

    for (const [query, status, field] of [
      ["page=0", 400, "page"],
      ["per_page=101", 400, "per_page"],
      [`search=${"x".repeat(256)}`, 400, "search"],
      [`project_id=${randomUUID()}`, 404, "project_id"],
      [`project_id=${theirs}`, 404, "project_id"],
    ] as const) {
      const answer = await server.admin.rest("GET", `${templatesPath()}?${query}`);

      expect([answer.status, answer.body.error.details[0]?.field], query).to.deep.equal([status, field]);
    }
  });
});

describe("UpdateRotationTemplate", () => {
  it("changes what is mentioned, and leaves the rest", async () => {
    const before = await templates.create({ project_id: server.projectId, ...fullTemplate });

    const { status, body } = await templates.put(before.id, { lead_time_days: 0 });

    expect(status).to.equal(200);
    const { updated_at, ...rest } = body;
    const { updated_at: beforeUpdate, ...expected } = before;
    expect(rest).to.deep.equal({ ...expected, lead_time_days: 0 });
    expect(updated_at > beforeUpdate).to.equal(true);
    expect(await templates.get(before.id)).to.deep.equal(body);
  });

  it("clears what is null, where there may be nothing, and takes null for absent elsewhere", async () => {
    const before = await templates.create({ project_id: server.projectId, ...fullTemplate });

    const { status, body } = await templates.put(before.id, {
      name: null,
      description: null,
      project_id: null,
      rotation_interval_days: null,
      lead_time_days: null,
      grace_period_days: null,
      secret_custody_mode: null,
      is_default: null,
    });

    expect(status).to.equal(200);
    expect(body).to.deep.include({
      name: before.name,
      description: "",
      project_id: null,
      rotation_interval_days: null,
      lead_time_days: null,
      grace_period_days: null,
      secret_custody_mode: "delegated",
      is_default: false,
    });
  });

  it("lets updated_at stand when nothing is different", async () => {
    const before = await templates.create({ ...fullTemplate });

    for (const body of [{}, undefined, { name: before.name, ...fullTemplate }, { unknown: 1 }]) {
      expect((await templates.put(before.id, body)).body).to.deep.equal(before);
    }
  });

  it("keeps the limits, and names the field", async () => {
    const { id } = await templates.create();
    for (const [field, value] of [
      ["name", ""],
      ["name", "x".repeat(256)],
      ["description", "x".repeat(1025)],
      ["rotation_interval_days", 3651],
      ["lead_time_days", -1],
      ["grace_period_days", 366],
      ["secret_custody_mode", "x"],
      ["project_id", "x"],
    ] as const) {
      const { status, body } = await templates.put(id, { [field]: value });

      expect([status, body.error.details[0]?.field]).to.deep.equal([400, field]);
    }
  });

  it("refuses a name that another template has, and takes its own", async () => {
    const one = await templates.create();
    const other = await templates.create();

    const taken = await templates.put(one.id, { name: other.name, description: "d" });

    expect([taken.status, taken.body.error.details[0].field]).to.deep.equal([409, "name"]);
    expect((await templates.get(one.id)).description).to.equal("");
    expect((await templates.put(one.id, { name: one.name })).status).to.equal(200);
  });
});

describe("DeleteRotationTemplate", () => {
  it("removes it for good, and frees its name", async () => {
    const { id, name } = await templates.create();

    const first = await templates.delete(id);
    const second = await templates.delete(id);

    expect([first.status, first.body]).to.deep.equal([204, ""]);
    expect([second.status, second.body.error.code]).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
    expect((await templates.post({ name })).status).to.equal(201);
  });

  it("of a project removes the templates that are meant for it", async () => {
    const project_id = await templates.newProject();
    const { id } = await templates.create({ project_id });

    const { status } = await server.admin.rest("DELETE", `/api/v1/projects/${project_id}`);

    expect(status).to.equal(204);
    expect((await server.admin.rest("GET", templatesPath(id))).status).to.equal(404);
  });
});
