import { expect } from "chai";
import { systemEvent } from "../../../src/server/audit/audit-writer.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const keys = [
  "id occurred_at action outcome actor resource project_id reason request_id source_ip",
  "user_agent details chain sequence previous_hash hash",
].flatMap((line) => line.split(" "));

interface Event {
  readonly id: string;
  readonly action: string;
  readonly occurred_at: string;
  readonly outcome: string;
  readonly resource: { readonly id: string; readonly name: string; readonly type: string };
}

const list = (query: Record<string, string> = {}) =>
  server.admin.rest("GET", `/api/v1/audit-logs?${new URLSearchParams(query).toString()}`);
const actions = ({ body }: { body: { data: Event[] } }) => body.data.map(({ action }) => action);

describe("ListAuditEvents", () => {
  it("answers {data, pagination} with exactly the specified fields of each event", async () => {
    const { id, key } = await server.secret();
    await server.admin.rest("GET", `/api/v1/secrets/${id}`, undefined, {
      "x-request-id": "my-request",
      "user-agent": "my-program/1.0",
    });

    const { status, headers, body } = await list({ request_id: "my-request" });

    expect(status).to.equal(200);
    expect(body.pagination).to.deep.equal({ page: 1, per_page: 25, total: 1 });
    expect(headers.get("x-total-count")).to.equal("1");
    const [event] = body.data;
    expect(event).to.have.all.keys(keys);
    const { id: _, occurred_at, chain, sequence, previous_hash, hash, ...rest } = event;
    expect([chain, sequence].every((place) => place >= 1)).to.equal(true);
    for (const each of [previous_hash, hash]) expect(each).to.match(/^[0-9a-f]{64}$/);
    expect(Math.abs(Date.parse(occurred_at) - Date.now())).to.be.lessThan(60_000);
    expect(rest).to.deep.equal({
      action: "secret.read_value",
      outcome: "success",
      actor: { type: "machine_identity", id: server.admin.id, name: "administrator" },
      resource: { type: "secret", id, name: key },
      project_id: server.projectId,
      reason: null,
      request_id: "my-request",
      source_ip: "127.0.0.1",
      user_agent: "my-program/1.0",
      details: { version: 1 },
    });
  });

  it("lists newest first, in pages that neither repeat nor skip", async () => {
    const { id } = await server.secret();
    for (let read = 0; read < 4; read += 1) await server.admin.rest("GET", `/api/v1/secrets/${id}`);

    const pages = [];
    for (const page of ["1", "2", "3"]) pages.push((await list({ resource_id: id, page, limit: "2" })).body.data);

    expect(pages.map((page) => page.length)).to.deep.equal([2, 2, 1]);
    const all = pages.flat() as Event[];
    expect(new Set(all.map((event) => event.id)).size).to.equal(5);
    expect(all.at(-1)?.action).to.equal("secret.create");
    const times = all.map(({ occurred_at }) => occurred_at);
    expect(times).to.deep.equal([...times].sort().reverse());
  });

  it("selects by action, exactly or all of a resource", async () => {
    const { id } = await server.secret();
    await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    await server.admin.rest("PUT", `/api/v1/secrets/${id}`, { value: "x" });

    const of = async (action: string) => actions(await list({ resource_id: id, action }));
    expect(await of("secret.read_value")).to.deep.equal(["secret.read_value"]);
    expect(await of("secret.*")).to.deep.equal(["secret.update", "secret.read_value", "secret.create"]);
    expect(await of("secret")).to.deep.equal([]);
    expect(await of("sec.*")).to.deep.equal([]);
    expect(await of("secret.read%")).to.deep.equal([]);
    expect(await of("project.*")).to.deep.equal([]);
  });

  it("selects by actor, resource, project, outcome and name", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "watched" });
    const watcher = await server.as("watched-actor", ["viewer"]);
    const { id, key } = await server.secret({ project_id: project.id, key: "Watched_100%" });
    await watcher.rest("GET", `/api/v1/secrets/${id}`);
    await watcher.rest("DELETE", `/api/v1/secrets/${id}`);

    const found = async (query: Record<string, string>) => actions(await list({ action: "secret.*", ...query }));
    expect(await found({ actor_id: watcher.id })).to.deep.equal(["secret.delete", "secret.read_value"]);
    expect(await found({ resource_id: id, outcome: "success" })).to.deep.equal(["secret.read_value", "secret.create"]);
    expect(await found({ outcome: "denied", actor_id: watcher.id })).to.deep.equal(["secret.delete"]);
    expect(await found({ project_id: project.id })).to.have.length(2);
    expect(await found({ search: "wATCHED_100%" })).to.have.length(2);
    expect(await found({ search: "watched%100" })).to.deep.equal([]);
    expect(await found({ resource_type: "secret", search: key })).to.have.length(2);
    expect(await found({ resource_type: "project", search: key })).to.deep.equal([]);
    const projects = await list({ resource_type: "project", resource_id: project.id });
    expect(actions(projects)).to.deep.equal(["project.create"]);
  });

  it("selects by time: from is included, to is not, whatever the offset", async () => {
    const id = "of another time";
    const at = new Date("2026-01-02T03:04:05.678Z");
    const [{ organization_id: organizationId }] = await server.sql("select organization_id from audit_event limit 1");
    const event = {
      organizationId,
      action: "secret.create",
      resourceType: "secret",
      resourceId: id,
      resourceName: null,
    };
    await server.server.core.audit.write(systemEvent({ ...event, occurredAt: at }));
    const total = async (query: Record<string, string>) =>
      (await list({ resource_id: id, ...query })).body.pagination.total;

    expect(await total({ from: "2026-01-02T03:04:05.678Z" })).to.equal(1);
    expect(await total({ from: "2026-01-02T03:04:05.679Z" })).to.equal(0);
    expect(await total({ to: "2026-01-02T03:04:05.678Z" })).to.equal(0);
    expect(await total({ to: "2026-01-02T03:04:05.679Z" })).to.equal(1);
    expect(await total({ from: "2026-01-02T05:04:05+02:00", to: "2026-01-02T05:04:06+02:00" })).to.equal(1);
    expect((await list({ resource_id: id })).body.data[0].occurred_at).to.equal("2026-01-02T03:04:05.678Z");
  });

  it("refuses filters that cannot be, by name", async () => {
    const cases: [string, string][] = [
      ["actor_id", "administrator"],
      ["project_id", "default"],
      ["outcome", "maybe"],
      ["from", "2026-01-02"],
      ["to", "yesterday"],
      ["page", "0"],
      ["per_page", "101"],
    ];
    for (const [name, text] of cases) {
      const { status, body } = await list({ [name]: text });
      expect(status, name).to.equal(400);
      expect(body.error.details[0].field).to.equal(name);
    }
  });

  it("is open to those who hold audit:read, at a project for that project only", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "audited" });
    const { id } = await server.secret({ project_id: project.id });
    await server.secret();
    const auditor = await server.as("auditor", ["auditor"]);
    const here = await server.as("auditor-here", { projectRoles: [{ project_id: project.id, role: "auditor" }] });
    const editor = await server.as("editor", ["editor"]);

    const all = await auditor.rest("GET", "/api/v1/audit-logs");
    const some = await here.rest("GET", "/api/v1/audit-logs?action=secret.*");
    const refused = await editor.rest("GET", "/api/v1/audit-logs");

    expect(all.status).to.equal(200);
    expect(some.body.data.map(({ resource }: Event) => resource.id)).to.deep.equal([id]);
    expect(refused.status).to.equal(403);
    expect(await server.auditTrail()).to.include("editor audit.list denied");
  });
});

describe("GetAuditEvent", () => {
  const get = (id: string, by = server.admin) => by.rest("GET", `/api/v1/audit-logs/${id}`);

  it("answers one event as the list does", async () => {
    const { id } = await server.secret();
    const { body: listed } = await list({ resource_id: id });

    const { status, body } = await get(listed.data[0].id);

    expect(status).to.equal(200);
    expect(body).to.deep.equal(listed.data[0]);
  });

  it("is 404 for what is not there, is another organization's, or is no id", async () => {
    const { admin } = await server.otherOrganization();
    const { body: listed } = await list();
    const { id } = listed.data[0];

    const answers = [
      await get(id, admin),
      await get("0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"),
      await get("ffffffff-ffff-4fff-bfff-ffffffffffff"),
      await get("not-an-id"),
    ];

    for (const { status, body } of answers) {
      expect(status).to.equal(404);
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
    }
  });

  it("is open to those who hold audit:read, at a project for that project's only", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "looked into" });
    const { id: inside } = await server.secret({ project_id: project.id });
    const { id: outside } = await server.secret();
    const here = await server.as("reader-here", { projectRoles: [{ project_id: project.id, role: "auditor" }] });
    const editor = await server.as("no-reader", ["editor"]);
    const eventOf = async (resource_id: string) => (await list({ resource_id })).body.data[0].id;

    expect((await get(await eventOf(inside), here)).status).to.equal(200);
    expect((await get(await eventOf(outside), here)).status).to.equal(404);
    expect((await get(await eventOf(inside), editor)).status).to.equal(403);
    expect(await server.auditTrail()).to.include("no-reader audit.read denied");
  });
});
