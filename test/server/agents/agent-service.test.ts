import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { foundKeytab, Host } from "../../harness/host.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { statementsOf } from "../secrets/statements.ts";
import { refusalOf } from "./refusal.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/api/v1/agents";
const hosts: Host[] = [];
after(() => hosts.forEach((host) => host.close()));

async function enroll(fields: Parameters<typeof Host.enroll>[1] = {}): Promise<Host> {
  const host = await Host.enroll(server, fields);
  hosts.push(host);
  return host;
}

const get = (id: string, by = server.admin) => by.rest("GET", `${path}/${id}`);
const act = (id: string, action: string, by = server.admin) => by.rest("POST", `${path}/${id}/${action}`);
const list = async (query = "", by = server.admin) => (await by.rest("GET", `${path}?${query}`)).body;
const hostnamesIn = ({ data }: { data: { hostname: string }[] }) => data.map(({ hostname }) => hostname);

describe("An agent", () => {
  it("has a record with all its fields", async () => {
    const host = await enroll({ hostname: "web1.example.com" });

    const { status, body } = await get(host.id);

    expect(status).to.equal(200);
    expect(body).to.deep.include({
      id: host.id,
      hostname: "web1.example.com",
      status: "online",
      version: "1.0.0",
      os: "Linux",
      last_scan_at: null,
      discovered_count: 0,
      scan_errors: [],
    });
    expect(Date.parse(body.last_heartbeat)).to.be.at.least(Date.parse(body.created_at));
  });

  it("is offline without a heartbeat for two minutes, and online with the next one", async () => {
    const host = await enroll();
    const heardSecondsAgo = async (seconds: number) => {
      const set = "update agent set last_heartbeat = now() - make_interval(secs => $2) where id = $1";
      await server.sql(set, [host.id, seconds]);
      return (await get(host.id)).body.status;
    };

    expect(await heardSecondsAgo(110)).to.equal("online");
    expect(await heardSecondsAgo(121)).to.equal("offline");
    await host.heartbeat();
    expect((await get(host.id)).body.status).to.equal("online");
  });

  it("is disabled and enabled with 200 and its record, as often as one likes", async () => {
    const host = await enroll();

    const answers = [];
    for (const action of ["disable", "disable", "enable", "enable"]) answers.push(await act(host.id, action));

    expect(answers.map(({ status, body }) => [status, body.status])).to.deep.equal([
      [200, "disabled"],
      [200, "disabled"],
      [200, "online"],
      [200, "online"],
    ]);
  });

  it("counts the keytabs that it sees, and not those that are gone", async () => {
    const host = await enroll();
    const files = ["/etc/a.keytab", "/etc/b.keytab", "/etc/c.keytab"].map((file) => foundKeytab(file, newKeytab()));
    await host.report(files);

    await host.report(files.slice(1), { errors: [{ path: "/etc/private", reason: "permission denied" }] });

    const { body } = await get(host.id);
    expect(body.discovered_count).to.equal(2);
    expect(body.last_scan_at).to.be.a("string");
    expect(body.scan_errors).to.deep.equal([{ path: "/etc/private", reason: "permission denied" }]);
  });

  it("is removed with its identity and what it found: 204, then 404", async () => {
    const host = await enroll();
    await host.report([foundKeytab("/etc/a.keytab", newKeytab())]);

    const answers = await Promise.all([1, 2].map(() => server.admin.rest("DELETE", `${path}/${host.id}`)));

    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).to.deep.equal([204, 404]);
    expect((await get(host.id)).status).to.equal(404);
    expect((await server.admin.rest("GET", `/api/v1/machine-identities/${host.id}`)).status).to.equal(404);
    expect(await refusalOf(host.heartbeat())).to.match(/^AUTH_INVALID/);
    const left = await server.sql(
      `select 1 from discovered_keytab where agent_id = $1 union all select 1 from role_binding where identity_id = $1
       union all select 1 from client_secret where machine_identity_id = $1`,
      [host.id],
    );
    expect(left).to.deep.equal([]);
  });

  it("goes with its identity, when that is removed", async () => {
    const host = await enroll();

    const { status } = await server.admin.rest("DELETE", `/api/v1/machine-identities/${host.id}`);

    expect(status).to.equal(204);
    expect((await get(host.id)).status).to.equal(404);
    expect(await refusalOf(host.heartbeat())).to.match(/^AUTH_INVALID/);
  });

  it("is removed by one of two who remove it and its identity at once", async () => {
    const agents = await Promise.all(Array.from({ length: 5 }, () => enroll()));

    const outcomes = agents.map(async ({ id }) => {
      const both = [`${path}/${id}`, `/api/v1/machine-identities/${id}`];
      const answers = await Promise.all(both.map((each) => server.admin.rest("DELETE", each)));
      return answers.map(({ status }) => status).sort((a, b) => a - b);
    });

    for (const statuses of await Promise.all(outcomes)) expect(statuses).to.deep.equal([204, 404]);
  });

  it("that is the last administrator is not removed", async () => {
    const { admin } = await server.otherOrganization();
    const host = await enroll({ by: admin });
    await admin.rest("PUT", `/api/v1/machine-identities/${host.id}`, { roles: ["agent", "admin"] });
    const other = await server.sql("select organization_id from agent where id = $1", [host.id]);
    await server.sql("delete from role_binding where organization_id = $1 and role = 'admin' and identity_id <> $2", [
      other[0].organization_id,
      host.id,
    ]);

    const { status, body } = await host.client.rest("DELETE", `${path}/${host.id}`);

    expect(status).to.equal(409);
    expect(body.error.message).to.include("without an active administrator");
  });

  it("is found by nobody of another organization", async () => {
    const host = await enroll();
    const { admin: stranger } = await server.otherOrganization();

    const answers = await Promise.all([
      get(host.id, stranger),
      act(host.id, "disable", stranger),
      act(host.id, "enable", stranger),
      stranger.rest("DELETE", `${path}/${host.id}`),
    ]);

    expect(answers.map(({ status }) => status)).to.deep.equal([404, 404, 404, 404]);
    expect(await list("", stranger)).to.deep.include({ data: [], pagination: { page: 1, per_page: 25, total: 0 } });
    expect((await get(host.id)).body.status).to.equal("online");
  });

  it("that there is not is not found", async () => {
    for (const id of [randomUUID(), "web1", server.admin.id]) {
      expect((await get(id)).status, id).to.equal(404);
      expect((await act(id, "disable")).status, id).to.equal(404);
      expect((await act(id, "enable")).status, id).to.equal(404);
      expect((await server.admin.rest("DELETE", `${path}/${id}`)).status, id).to.equal(404);
    }
    expect((await server.admin.rest("GET", `/api/v1/machine-identities/${server.admin.id}`)).status).to.equal(200);
  });

  it("is recorded by its hostname in whatever is done with it", async () => {
    const host = await enroll();
    await act(host.id, "disable");
    await act(host.id, "enable");
    await server.admin.rest("DELETE", `${path}/${host.id}`);

    const events = await server.sql(
      `select action, resource_name, actor_name, outcome from audit_event
       where resource_id = $1 and actor_name = 'administrator' order by occurred_at, id`,
      [host.id],
    );

    const done = { resource_name: host.hostname, actor_name: "administrator", outcome: "success" };
    expect(events).to.deep.equal(
      ["agent.disable", "agent.enable", "agent.delete"].map((action) => ({ action, ...done })),
    );
  });
});

describe("Agents", () => {
  it("are listed by hostname, in pages, those that are offline too", async () => {
    const { admin } = await server.otherOrganization();
    for (const hostname of ["b", "c", "a", "b"]) await (await enroll({ hostname, by: admin })).fallSilent();

    const first = await list("per_page=3", admin);
    const second = await list("per_page=3&page=2", admin);

    expect(hostnamesIn(first)).to.deep.equal(["a", "b", "b"]);
    expect(hostnamesIn(second)).to.deep.equal(["c"]);
    expect(first.pagination).to.deep.equal({ page: 1, per_page: 3, total: 4 });
  });

  it("are found by part of their hostname and by their status", async () => {
    const { admin } = await server.otherOrganization();
    const [online, offline, disabled] = await Promise.all(
      ["web-on", "web-off", "db-dis"].map((hostname) => enroll({ hostname, by: admin })),
    );
    await offline?.fallSilent();
    await act(disabled?.id ?? "", "disable", admin);

    expect(hostnamesIn(await list("search=WEB", admin))).to.deep.equal(["web-off", "web-on"]);
    expect(hostnamesIn(await list("search=%25", admin))).to.deep.equal([]);
    for (const [status, host] of Object.entries({ online, offline, disabled })) {
      expect(hostnamesIn(await list(`status=${status}`, admin))).to.deep.equal([host?.hostname]);
    }
    expect((await admin.rest("GET", `${path}?status=gone`)).status).to.equal(400);
  });

  it("are listed by one statement, however many they are", async () => {
    await Promise.all(Array.from({ length: 3 }, () => enroll()));
    await list();

    const statements = await statementsOf(server, () => list());

    expect(statements.filter((text) => text.includes("agent a"))).to.have.length(1);
    expect(statements.filter((text) => text.includes("discovered_keytab"))).to.have.length(1);
  });

  it("are counted in the system's health while they are online", async () => {
    const count = async () => (await server.admin.rest("GET", "/api/v1/health/system")).body.statistics.active_agents;
    const before = await count();
    const [host] = await Promise.all([enroll(), enroll()]);

    expect(await count()).to.equal(before + 2);
    await host.fallSilent();
    expect(await count()).to.equal(before + 1);
  });
});

describe("Without the feature keytabs", () => {
  const featureless = useServer();

  it("agents enroll, are watched over and are administered all the same", async () => {
    const host = await Host.enroll(featureless);
    const watch = host.watch();

    const welcome = await watch.next();
    const { body } = await featureless.admin.rest("GET", `${path}/${host.id}`);
    const report = await refusalOf(host.report([]));
    host.close();

    expect(welcome?.kind.case).to.equal("welcome");
    expect(body.status).to.equal("online");
    expect(report).to.match(/^FEATURE_DISABLED/);
  });
});
