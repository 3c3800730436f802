import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { Templates, templatesPath } from "./templates.ts";

const server = useServer();
const templates = new Templates(server);

describe("Rotation templates", () => {
  interface Operation {
    readonly name: string;
    readonly permission: string;
    readonly action: string;
    readonly call: (by: Client, template: { id: string; project_id: string | null }) => ReturnType<Client["rest"]>;
  }

  const operations: readonly Operation[] = [
    {
      name: "read one",
      permission: "rotation:read",
      action: "rotation_template.read",
      call: (by, { id }) => by.rest("GET", templatesPath(id)),
    },
    {
      name: "create one",
      permission: "rotation:write",
      action: "rotation_template.create",
      call: (by, { project_id }) => templates.post({ project_id }, by),
    },
    {
      name: "change one",
      permission: "rotation:write",
      action: "rotation_template.update",
      call: (by, { id }) => templates.put(id, { description: "d" }, by),
    },
    {
      name: "delete one",
      permission: "rotation:write",
      action: "rotation_template.delete",
      call: (by, { id }) => templates.delete(id, by),
    },
  ];

  for (const { name, permission, action, call } of operations) {
    it(`take ${permission} to ${name}: in its project, or at the organization where it has none`, async () => {
      const project_id = await templates.newProject();
      const inside = await templates.holder(permission, project_id);
      const outside = await templates.holder(permission, await templates.newProject());
      const everywhere = await templates.holder(permission);
      const other = await templates.holder(permission === "rotation:read" ? "rotation:write" : "rotation:read");
      const statuses = async (by: Client) => [
        (await call(by, await templates.create({ project_id }))).status,
        (await call(by, await templates.create())).status,
      ];

      const done = name === "create one" ? 201 : name === "delete one" ? 204 : 200;
      expect(await statuses(inside)).to.deep.equal([done, 403]);
      expect(await statuses(outside)).to.deep.equal([403, 403]);
      expect(await statuses(everywhere)).to.deep.equal([done, done]);
      expect(await statuses(other)).to.deep.equal([403, 403]);
      const denied = await server.sql(
        "select distinct action from audit_event where actor_id = $1 and outcome = 'denied'",
        [outside.id],
      );
      expect(denied).to.deep.equal([{ action }]);
    });
  }

  it("are listed as far as the caller may read them", async () => {
    const project_id = await templates.newProject();
    const inside = await templates.holder("rotation:read", project_id);
    const everywhere = await templates.holder("rotation:read");
    const [own, other, none] = [
      await templates.create({ project_id }),
      await templates.create({ project_id: server.projectId }),
      await templates.create(),
    ];
    const ids = async (by: Client) => (await templates.list(by, "&search=template-")).map(({ id }) => id);

    expect(await ids(inside)).to.deep.equal([own.id]);
    expect(await ids(everywhere)).to.include.members([own.id, other.id, none.id]);
    const elsewhere = await inside.rest("GET", `${templatesPath()}?project_id=${server.projectId}`);
    expect([elsewhere.status, elsewhere.body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
  });

  it("are moved to another project by who may write in both", async () => {
    const [from, to] = [await templates.newProject(), await templates.newProject()];
    const writer = await templates.holder("rotation:write", from);
    const moving = await templates.create({ project_id: from });

    const refused = await templates.put(moving.id, { project_id: to }, writer);
    const freed = await templates.put(moving.id, { project_id: null }, writer);
    const unknown = await templates.put(moving.id, { project_id: randomUUID() }, writer);
    const moved = await templates.put(moving.id, { project_id: to });

    expect([refused.status, freed.status]).to.deep.equal([403, 403]);
    expect([unknown.status, unknown.body.error.details[0].field]).to.deep.equal([404, "project_id"]);
    expect([moved.status, moved.body.project_id]).to.deep.equal([200, to]);
    expect((await templates.put(moving.id, {}, writer)).status).to.equal(403);
  });

  it("take no project of another organization, nor one that is not there: 404 with the field", async () => {
    const { projectId: theirs } = await server.otherOrganization();
    const { id } = await templates.create();

    for (const project_id of [theirs, randomUUID()]) {
      for (const { status, body } of [await templates.post({ project_id }), await templates.put(id, { project_id })]) {
        expect([status, body.error.code, body.error.details]).to.deep.equal([
          404,
          "RESOURCE_NOT_FOUND",
          [{ field: "project_id", message: "does not exist" }],
        ]);
      }
    }
  });

  it("take the caller's own organization_id, and refuse any other with 403", async () => {
    const { organizationId: theirs, admin: stranger } = await server.otherOrganization();
    const { id, organization_id: own } = await templates.create();
    const calls = (organization_id: string) => [
      () => templates.post({ organization_id }),
      () => templates.put(id, { organization_id, description: organization_id }),
      () => server.admin.rest("GET", templatesPath(id, `?organization_id=${organization_id}`)),
      () => server.admin.rest("GET", templatesPath(undefined, `?organization_id=${organization_id}`)),
      () => server.admin.rest("DELETE", templatesPath(id, `?organization_id=${organization_id}`)),
    ];
    const their = await templates.create({}, stranger);
    const asked = [theirs, randomUUID()].flatMap(calls);
    asked.push(() => server.admin.rest("GET", templatesPath(their.id, `?organization_id=${theirs}`)));

    for (const call of asked) {
      const { status, body } = await call();
      expect([status, body.error.code, body.error.details[0].field]).to.deep.equal([
        403,
        "PERMISSION_DENIED",
        "organization_id",
      ]);
    }
    const taken: number[] = [];
    for (const call of calls(own.toUpperCase())) taken.push((await call()).status);
    expect(taken).to.deep.equal([201, 200, 200, 200, 204]);
  });

  it("of another organization are not there", async () => {
    const { admin: stranger } = await server.otherOrganization();
    const { id } = await templates.create({}, stranger);

    for (const [verb, body] of [["GET"], ["PUT", { name: "x" }], ["DELETE"]] as const) {
      for (const each of [id, randomUUID(), "nonsense"]) {
        const answer = await server.admin.rest(verb, templatesPath(each), body);
        expect([answer.status, answer.body.error.code]).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
      }
    }
    expect((await templates.list(server.admin, "&search=template-")).map((each) => each.id)).not.to.include(id);
    expect(await templates.get(id, stranger)).to.include({ id });
  });
});
