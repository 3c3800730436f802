import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { populate } from "../keytabs/populate.ts";
import { discovered, recordOf, someFile } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/api/v1/keytabs/discovered";
const hosts: Host[] = [];
afterEach(() => hosts.splice(0).forEach((host) => host.close()));

async function enroll(fields: Parameters<typeof Host.enroll>[1] = {}): Promise<Host> {
  const host = await Host.enroll(server, fields);
  hosts.push(host);
  return host;
}

const post = (id: string, action: string, body?: unknown) => server.admin.rest("POST", `${path}/${id}/${action}`, body);
const pathsOf = async (query: string) =>
  (await discovered(server.admin, query)).map((record): string => record.file_path);

describe("The list of discovered keytabs", () => {
  it("has the last seen first, and those seen together in one order on all pages", async () => {
    const host = await enroll();
    for (const part of ["a", "b", "c"]) {
      await host.report(
        [1, 2, 3].map((each) => someFile(`/etc/${part}/${each}`)),
        { complete: false },
      );
    }
    const pages = [];
    for (const page of [1, 2, 3, 4]) {
      pages.push((await server.admin.rest("GET", `${path}?agent_id=${host.id}&page=${page}&limit=4`)).body);
    }

    const all = pages.flatMap(({ data }) => data as { file_path: string }[]);
    expect(pages.map(({ data, total, page, limit }) => [data.length, total, page, limit])).to.deep.equal([
      [4, 9, 1, 4],
      [4, 9, 2, 4],
      [1, 9, 3, 4],
      [0, 9, 4, 4],
    ]);
    expect(all.map(({ file_path }) => file_path.split("/")[2]).join("")).to.equal("cccbbbaaa");
    expect(new Set(all.map(({ file_path }) => file_path)).size).to.equal(9);
  });

  it("shows records as they are shown alone", async () => {
    const host = await enroll();
    const file = newKeytab();
    await host.report([foundKeytab("/etc/a", file), someFile("/etc/b", { filePermissions: "0644", kvnos: [1, 2, 3] })]);
    await importKeytab(server.admin, file);

    const records = await discovered(server.admin, `agent_id=${host.id}`);

    expect(records).to.have.length(2);
    for (const record of records) {
      expect((await server.admin.rest("GET", `${path}/${record.id}`)).body).to.deep.equal(record);
    }
  });

  it("says in headers how many there are, and has 25 on a page", async () => {
    const host = await enroll();
    await host.report(Array.from({ length: 30 }, (_, index) => someFile(`/etc/${index}`)));

    const { headers, body } = await server.admin.rest("GET", `${path}?agent_id=${host.id}`);

    expect([headers.get("x-total-count"), headers.get("x-page"), headers.get("x-per-page")]).to.deep.equal([
      "30",
      "1",
      "25",
    ]);
    expect(body.data).to.have.length(25);
    expect(body).to.include({ total: 30, page: 1, limit: 25 });
  });

  const refused = [
    { query: "state=new", field: "state" },
    { query: "agent_id=x", field: "agent_id" },
    { query: "finding=bad", field: "finding" },
    { query: "is_managed=perhaps", field: "is_managed" },
    { query: "limit=101", field: "limit" },
    { query: "page=0", field: "page" },
    { query: "realm=%00", field: "realm" },
  ];
  for (const { query, field } of refused) {
    it(`refuses ${query}`, async () => {
      const { status, body } = await server.admin.rest("GET", `${path}?${query}`);

      expect(status).to.equal(400);
      expect(body.error.details.map((each: { field: string }) => each.field)).to.deep.equal([field]);
    });
  }

  it("of an agent that is not there is not found", async () => {
    const other = await server.otherOrganization();
    const foreign = await enroll({ by: other.admin });

    for (const id of [randomUUID(), foreign.id]) {
      const { status, body } = await server.admin.rest("GET", `${path}?agent_id=${id}`);

      expect(status).to.equal(404);
      expect(body.error.details).to.deep.equal([{ field: "agent_id", message: "does not exist" }]);
    }
  });

  it("of an agent that has found nothing is empty", async () => {
    expect(await discovered(server.admin, `agent_id=${(await enroll()).id}`)).to.deep.equal([]);
  });
});

describe("A filter of discovered keytabs", () => {
  let host: Host;
  let select: (query: string) => Promise<string[]>;

  beforeEach(async () => {
    host = await enroll();
    select = async (query) => (await pathsOf(`agent_id=${host.id}&${query}`)).toSorted();
  });

  it("selects by state, by management and by drift", async () => {
    const [managed, drifting] = [newKeytab(), newKeytab()];
    const names = ["discovered", "ignored", "stale", "managed", "drifted"];
    const bytes = [newKeytab(), newKeytab(), newKeytab(), managed, drifting];
    const files = names.map((name, index) => foundKeytab(`/etc/${name}`, bytes[index] as Buffer));
    await host.report(files);
    await post((await recordOf(server.admin, host, "/etc/ignored")).id, "ignore", {});
    for (const file of [managed, drifting]) await importKeytab(server.admin, file);
    const changed = foundKeytab("/etc/drifted", newKeytab());
    await host.report([...files.filter(({ filePath }) => !/stale|drifted/.test(filePath ?? "")), changed]);

    expect(await select("state=discovered")).to.deep.equal(["/etc/discovered"]);
    expect(await select("state=ignored")).to.deep.equal(["/etc/ignored"]);
    expect(await select("state=stale")).to.deep.equal(["/etc/stale"]);
    expect(await select("state=imported")).to.deep.equal(["/etc/drifted", "/etc/managed"]);
    expect(await select("is_managed=true")).to.deep.equal(["/etc/drifted", "/etc/managed"]);
    expect(await select("is_managed=false")).to.deep.equal(["/etc/discovered", "/etc/ignored", "/etc/stale"]);
    expect(await select("drifted=true")).to.deep.equal(["/etc/drifted"]);
    expect(await select("drifted=false&state=imported")).to.deep.equal(["/etc/managed"]);
  });

  it("finds a managed file also when it is stale, and no file of a deleted keytab", async () => {
    const [kept, deleted] = [newKeytab(), newKeytab()];
    await host.report([foundKeytab("/etc/kept", kept), foundKeytab("/etc/deleted", deleted)]);
    await importKeytab(server.admin, kept);
    const { id } = await importKeytab(server.admin, deleted);
    await server.admin.rest("DELETE", `/api/v1/keytabs/${id}`);
    await host.report([foundKeytab("/etc/deleted", deleted)]);

    expect(await select("is_managed=true")).to.deep.equal(["/etc/kept"]);
    expect(await select("state=stale")).to.deep.equal(["/etc/kept"]);
    expect(await select("state=discovered")).to.deep.equal(["/etc/deleted"]);
  });

  it("selects a realm whatever its case, and a part of a principal as it is written", async () => {
    const file = (name: string, principal: string, realm: string) =>
      someFile(`/etc/${name}`, { principal: `${principal}@${realm}`, realm });
    await host.report([
      file("a", "HTTP/web_1.example.com", "EXAMPLE.COM"),
      file("b", "HTTP/web21.example.com", "Example.com"),
      file("c", "nfs/store", "SUB.EXAMPLE.COM"),
    ]);

    expect(await select("realm=example.COM")).to.deep.equal(["/etc/a", "/etc/b"]);
    expect(await select("realm=EXAMPLE")).to.deep.equal([]);
    expect(await select("principal=http/WEB")).to.deep.equal(["/etc/a", "/etc/b"]);
    expect(await select("principal=web_1")).to.deep.equal(["/etc/a"]);
    expect(await select("principal=%25")).to.deep.equal([]);
    expect(await select("principal=store&realm=sub.example.com")).to.deep.equal(["/etc/c"]);
  });

  it("selects by each finding of a file itself", async () => {
    await host.report([
      someFile("/etc/world", { filePermissions: "0604" }),
      someFile("/etc/group", { filePermissions: "0640" }),
      someFile("/etc/owner", { fileOwner: "99:99" }),
      someFile("/etc/kvnos", { kvnos: [1, 2, 3] }),
      someFile("/etc/none"),
    ]);

    expect(await select("finding=world_readable")).to.deep.equal(["/etc/world"]);
    expect(await select("finding=group_readable")).to.deep.equal(["/etc/group"]);
    expect(await select("finding=wrong_owner")).to.deep.equal(["/etc/owner"]);
    expect(await select("finding=old_kvnos")).to.deep.equal(["/etc/kvnos"]);
  });
});

describe("What a record says of a file among others", () => {
  it("counts the hosts that hold the same bytes, each once, and names that", async () => {
    const [first, second] = [await enroll(), await enroll()];
    const bytes = newKeytab();
    await first.report([foundKeytab("/etc/a", bytes), foundKeytab("/etc/copy", bytes), someFile("/etc/own")]);
    const before = await recordOf(server.admin, first, "/etc/a");

    await second.report([foundKeytab("/etc/b", bytes)]);

    const shared = [
      await recordOf(server.admin, first, "/etc/a"),
      await recordOf(server.admin, first, "/etc/copy"),
      await recordOf(server.admin, second, "/etc/b"),
    ];
    expect(before).to.deep.include({ instances: 1, findings: [] });
    for (const record of shared) expect(record).to.deep.include({ instances: 2, findings: ["shared_key"] });
    expect(await recordOf(server.admin, first, "/etc/own")).to.deep.include({ instances: 1, findings: [] });
  });

  it("counts no host on which the file is gone", async () => {
    const [first, second] = [await enroll(), await enroll()];
    const bytes = newKeytab();
    for (const host of [first, second]) await host.report([foundKeytab("/etc/a", bytes)]);

    await second.report([]);

    expect(await recordOf(server.admin, first)).to.deep.include({ instances: 1, findings: [] });
    expect(await recordOf(server.admin, second)).to.deep.include({ instances: 1, findings: [], state: "stale" });
  });

  it("counts no host of another organization", async () => {
    const other = await server.otherOrganization();
    const [ours, theirs] = [await enroll(), await enroll({ by: other.admin })];
    const bytes = newKeytab();

    for (const host of [ours, theirs]) await host.report([foundKeytab("/etc/a", bytes)]);

    expect(await recordOf(server.admin, ours)).to.deep.include({ instances: 1, findings: [] });
    expect(await recordOf(other.admin, theirs)).to.deep.include({ instances: 1, findings: [] });
  });

  it("says that a newer key of the principal is elsewhere: on a host, or under management", async () => {
    const [first, second] = [await enroll(), await enroll()];
    const [onHost, managed] = [{ principal: "HTTP/on-host" }, { principal: "HTTP/managed" }];
    await first.report([
      foundKeytab("/etc/a", newKeytab({ ...onHost, kvno: 3 })),
      foundKeytab("/etc/b", newKeytab({ ...managed, kvno: 3 })),
    ]);
    await second.report([foundKeytab("/etc/c", newKeytab({ ...onHost, kvno: 4 }))]);
    await importKeytab(server.admin, newKeytab({ ...managed, kvno: 300 }));

    const findings = [];
    for (const [host, file] of [
      [first, "/etc/a"],
      [first, "/etc/b"],
      [second, "/etc/c"],
    ] as const) {
      findings.push((await recordOf(server.admin, host, file)).findings);
    }
    expect(findings).to.deep.equal([["kvno_behind"], ["kvno_behind"], []]);
  });
});

describe("A filter by what a file is among others", () => {
  it("finds just the files whose records say it", async () => {
    const other = await server.otherOrganization();
    const { organizationId } = other;
    await populate(server, organizationId, { keytabs: 300, agents: 20, files: 400, copies: 50 });
    await server.sql("update discovered_keytab set stale = true where kvno = 3 and organization_id = $1", [
      organizationId,
    ]);
    const select = async (query: string) => {
      const ids: string[] = [];
      for (let page = 1; ; page += 1) {
        const { body } = await other.admin.rest("GET", `${path}?limit=100&page=${page}&${query}`);
        ids.push(...body.data.filter(query === "" ? holds : () => true).map((each: { id: string }) => each.id));
        if (body.data.length === 0) return ids.toSorted();
      }
    };
    let holds: (record: { findings: string[] }) => boolean = () => true;

    for (const finding of ["shared_key", "kvno_behind"]) {
      holds = ({ findings }) => findings.includes(finding);
      const expected = await select("");

      expect(expected, finding).not.to.have.length(0);
      expect(await select(`finding=${finding}`), finding).to.deep.equal(expected);
    }
  });
});

describe("Who sees discovered keytabs", () => {
  it("is whoever holds keytab:read at the organization", async () => {
    const host = await enroll();
    await host.report([someFile("/etc/a")]);
    const { id } = await recordOf(server.admin, host);
    const viewer = await server.as("viewer-of-files", ["viewer"]);
    const inProject = await server.as("viewer-in-project", {
      projectRoles: [{ project_id: server.projectId, role: "viewer" }],
    });
    const nobody = await server.as("nobody", []);

    const statuses = [];
    for (const client of [viewer, inProject, nobody, host.client, server.anonymous]) {
      statuses.push([
        (await client.rest("GET", path)).status,
        (await client.rest("GET", `${path}/${id}`)).status,
        (await client.rest("POST", `${path}/${id}/ignore`, {})).status,
        (await client.rest("POST", `${path}/${id}/import`, {})).status,
      ]);
    }

    expect(statuses).to.deep.equal([
      [200, 200, 403, 403],
      [403, 403, 403, 403],
      [403, 403, 403, 403],
      [403, 403, 403, 403],
      [401, 401, 401, 401],
    ]);
  });

  it("is nobody of another organization, to whom they do not exist", async () => {
    const { admin } = await server.otherOrganization();
    const host = await enroll();
    await host.report([someFile("/etc/a")]);
    const { id } = await recordOf(server.admin, host);

    expect(await discovered(admin)).to.deep.equal([]);
    for (const [verb, action] of [
      ["GET", ""],
      ["POST", "/ignore"],
      ["POST", "/unignore"],
      ["POST", "/import"],
      ["POST", "/resync"],
    ] as const) {
      const { status, body } = await admin.rest(verb, `${path}/${id}${action}`);

      expect(status, action).to.equal(404);
      expect(body.error.message, action).to.equal("discovered keytab not found");
    }
  });

  it("finds none by what is no id", async () => {
    for (const id of ["x", randomUUID()]) {
      expect((await server.admin.rest("GET", `${path}/${id}`)).status).to.equal(404);
    }
  });

  it("no longer sees them when their agent is removed", async () => {
    const host = await enroll();
    await host.report([someFile("/etc/a")]);
    const { id } = await recordOf(server.admin, host);

    await server.admin.rest("DELETE", `/api/v1/agents/${host.id}`);

    expect((await server.admin.rest("GET", `${path}/${id}`)).status).to.equal(404);
  });
});
