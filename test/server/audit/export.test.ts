import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { AuditService } from "../../../gen/ts/holdfast/audit/v1/audit_service_pb.ts";
import { unavailable } from "../../../src/server/errors.ts";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/audit-logs/export";
const many = 200_000;

interface Event {
  readonly id: string;
  readonly action: string;
  readonly chain: number;
  readonly sequence: number;
  readonly request_id: string;
}

const exported = async (query: Record<string, string> = {}, by: Client = server.admin) => {
  const answer = await by.rest("GET", `${path}?${new URLSearchParams(query).toString()}`);
  const lines = answer.status === 200 ? (answer.body as string).split("\n").slice(0, -1) : [];
  return { ...answer, events: lines.map((line) => JSON.parse(line) as Event) };
};
const listed = async (query: Record<string, string> = {}) =>
  (await server.admin.rest("GET", `/api/v1/audit-logs?per_page=100&${new URLSearchParams(query).toString()}`)).body
    .data;

describe("ExportAuditEvents", () => {
  it("answers a line of JSON for each event, as the list has them, by chain and sequence", async () => {
    await Promise.all([1, 2, 3].map(() => server.secret()));
    const events: Event[] = await listed();

    const { status, headers, events: lines } = await exported();

    expect(status).to.equal(200);
    expect(headers.get("content-type")).to.equal("application/x-ndjson; charset=utf-8");
    const inOrder = events.toSorted((a, b) => a.chain - b.chain || a.sequence - b.sequence);
    expect(lines.filter(({ action }) => action !== "audit.export")).to.deep.equal(inOrder);
  });

  it("selects what the list selects", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "exported" });
    const { id, key } = await server.secret({ project_id: project.id });
    await server.admin.rest("GET", `/api/v1/secrets/${id}`, undefined, { "x-request-id": "for-the-export" });
    const viewer = await server.as("export-viewer", ["viewer"]);
    await viewer.rest("DELETE", `/api/v1/secrets/${id}`);
    const [first] = await listed({ resource_id: id });
    const soon = new Date(Date.now() + 1000).toISOString();

    const filters: Record<string, string>[] = [
      { action: "secret.read_value" },
      { action: "secret.*", resource_id: id },
      { actor_id: viewer.id },
      { resource_type: "secret", search: key.slice(1) },
      { project_id: project.id },
      { outcome: "denied" },
      { request_id: "for-the-export" },
      { from: first.occurred_at, to: soon },
      { action: "nothing.of.this" },
    ];
    for (const filter of filters) {
      const idsOf = (events: Event[]) =>
        events.filter(({ action }) => action !== "audit.export").map((each) => each.id);
      const expected = idsOf(await listed(filter));

      const { events } = await exported(filter);

      expect(idsOf(events), JSON.stringify(filter)).to.have.members(expected);
    }
  });

  it("is recorded, with what was selected, before the first line leaves; not recorded, it is not answered", async () => {
    await exported({ action: "secret.*", from: "2026-01-01T00:00:00Z" });
    const [event] = await listed({ action: "audit.export" });
    const { audit } = server.server.core;
    const write = audit.write.bind(audit);
    audit.write = async () => {
      throw unavailable("of the test");
    };

    const refused = await exported();
    audit.write = write;

    expect(event).to.deep.include({
      outcome: "success",
      details: { filter: { action: "secret.*", from: "2026-01-01T00:00:00Z" } },
    });
    expect(refused.status).to.equal(503);
  });

  it("is open to those who hold audit:read, at a project for that project's events only", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "export-here" });
    const { id } = await server.secret({ project_id: project.id });
    const here = await server.as("exporter-here", { projectRoles: [{ project_id: project.id, role: "auditor" }] });
    const editor = await server.as("no-exporter", ["editor"]);
    const { admin: stranger } = await server.otherOrganization();

    const some = await exported({ action: "secret.*" }, here);
    const refused = await exported({}, editor);
    const theirs = await exported({}, stranger);

    expect(some.body).to.include(id);
    expect(new Set(some.events.map((event) => (event as never)["project_id"]))).to.deep.equal(new Set([project.id]));
    expect(refused.status).to.equal(403);
    expect(theirs.body).not.to.include(server.projectId);
    expect(await server.auditTrail()).to.include("no-exporter audit.export denied");
  });

  it("answers over gRPC and Connect what REST answers", async () => {
    const filter = { action: "organization.create" };
    const { events } = await exported(filter);
    const grpc = server.admin.grpc(AuditService);

    const overGrpc = [];
    for await (const event of grpc.exportAuditEvents(filter, server.admin.metadata())) overGrpc.push(event);
    grpc.close();
    const overConnect = [];
    for await (const event of server.admin.connect(AuditService).exportAuditEvents(filter)) overConnect.push(event);

    const places = events.map(({ id, chain, sequence }) => [id, chain, sequence]);
    expect(places.length).to.be.above(0);
    for (const answers of [overGrpc, overConnect]) {
      expect(answers.map(({ id, chain, sequence }) => [id, chain, sequence])).to.deep.equal(places);
    }
  });
});

describe("The export of a large log", () => {
  const asked = { pages: 0 };
  let organizationId: string;

  before(async function () {
    this.timeout(60_000);
    const [event] = await server.sql("select organization_id from audit_event limit 1");
    organizationId = event.organization_id;
    await server.sql(
      `insert into audit_event (organization_id, occurred_at, action, outcome, actor_type, actor_name, resource_type,
         request_id, source_ip, user_agent, details, chain, sequence, previous_hash, hash)
       select $1, now() - n * interval '1 second', 'secret.read_value', 'success', 'user', 'alice', 'secret', 'bulk-' || n,
         '192.0.2.1', 'a program of some length/1.0', '{"version":1}', 1000 + n % 7, n, sha256('x'), sha256('y')
       from generate_series(1, $2::int) n`,
      [organizationId, many],
    );
    await server.sql("analyze audit_event");
    const { db } = server.server.core;
    const query = db.query.bind(db);
    db.query = (text, values) => {
      if (text.includes("with page as")) asked.pages += 1;
      return query(text, values);
    };
  });
  beforeEach(() => {
    asked.pages = 0;
  });

  /** An export whose reader has taken the first bytes and then waits. */
  const begun = async (): Promise<IncomingMessage> => {
    const request = get(`${server.url}${path}`, { headers: { authorization: `Bearer ${server.admin.token}` } });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    await once(response, "readable");
    return response;
  };
  /** How many pages have been asked for once no more are. */
  const settled = async (): Promise<number> => {
    for (let before = -1; before !== asked.pages; await sleep(500)) before = asked.pages;
    return asked.pages;
  };

  it("has every event once", async function () {
    this.timeout(60_000);
    const { events } = await exported({ search: "", outcome: "success" });

    const bulk = events.filter(({ request_id }) => request_id?.startsWith("bulk-"));
    expect(bulk).to.have.length(many);
    expect(new Set(bulk.map(({ request_id }) => request_id)).size).to.equal(many);
    const places = bulk.map(({ chain, sequence }) => chain * many + sequence);
    expect(places).to.deep.equal(places.toSorted((a, b) => a - b));
  });

  it("reads no further ahead than a slow reader takes", async function () {
    this.timeout(60_000);
    const response = await begun();

    const whileWaiting = await settled();
    let bytes = 0;
    response.on("data", (chunk: Buffer) => (bytes += chunk.length));
    await once(response, "end");

    expect(whileWaiting).to.be.below(60);
    expect(asked.pages).to.be.above(200);
    expect(bytes).to.be.above(many * 300);
  });

  it("ends when its reader goes away", async () => {
    const response = await begun();
    const before = await settled();

    response.destroy();

    expect(await settled()).to.be.at.most(before + 1);
    expect(server.server.core.db.pool.waitingCount).to.equal(0);
  });

  it("is not verified any further once nobody waits for the answer", async function () {
    this.timeout(60_000);
    const headers = { authorization: `Bearer ${server.admin.token}` };
    const request = get(`${server.url}/api/v1/audit-logs/verify`, { headers }).on("error", () => {});
    while (asked.pages < 3) await sleep(5);

    request.destroy();

    expect(await settled()).to.be.below(150);
  });

  it("is done in time however few events are selected", async () => {
    const { events } = await exported({ request_id: `bulk-${many}` });

    expect(events.map(({ request_id }) => request_id)).to.deep.equal([`bulk-${many}`]);
  });

  it("reads only the months that can hold what is selected", async () => {
    const { events } = await exported({ from: "2020-01-01T00:00:00Z", to: "2020-02-01T00:00:00Z" });

    expect(events).to.deep.equal([]);
    expect(asked.pages).to.equal(1);
  });

  it("does not slow down the look at one event, which its id leads to", async () => {
    const { db } = server.server.core;
    const query = db.query.bind(db);
    let statement: [string, readonly unknown[]] = ["", []];
    db.query = (text, values) => {
      if (text.includes("from audit_event a where")) statement = [text, values];
      return query(text, values);
    };
    const [{ id }] = await server.sql("select id from audit_event where request_id = 'bulk-1'");

    const { body } = await server.admin.rest("GET", `/api/v1/audit-logs/${id}`);
    db.query = query;

    expect(body.request_id).to.equal("bulk-1");
    const plan = JSON.stringify(await server.sql(`explain (analyze, format json) ${statement[0]}`, [...statement[1]]));
    expect(plan).to.match(/"Index Cond":"[^"]*\(id = /);
    expect(plan.match(/"Relation Name"/g)?.length).to.be.within(1, 3);
  });
});
