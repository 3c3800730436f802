import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { KeytabReportService } from "../../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { Host } from "../../harness/host.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { discovered, fieldsAtFault, recordOf, someFile, someFiles } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/etc/krb5.keytab";
let host: Host;

beforeEach(async () => {
  host = await Host.enroll(server);
});
afterEach(() => host.close());

const events = () =>
  server.sql(
    `select actor_type, resource_type, resource_id, resource_name, outcome, details::jsonb from audit_event
     where action = 'agent.report' and actor_id = $1 order by occurred_at, id`,
    [host.id],
  );
const nothing = { discovered: 0, changed: 0, returned: 0, linked: 0, stale: 0 };

describe("A report of keytabs", () => {
  it("makes a record of each file that was not known", async () => {
    const file = someFile("/etc/httpd/http.keytab", {
      principal: "HTTP/web1.example.com@EXAMPLE.COM",
      kvnos: [3, 4],
      filePermissions: "0640",
      fileOwner: "root:apache",
    });

    const answer = await host.report([file, someFile(path)]);

    const record = await recordOf(server.admin, host, "/etc/httpd/http.keytab");
    expect(answer).to.include({ discovered: 2, changed: 0, stale: 0 });
    expect(record).to.deep.include({
      agent_id: host.id,
      hostname: host.hostname,
      principal: "HTTP/web1.example.com@EXAMPLE.COM",
      realm: "EXAMPLE.COM",
      kvno: 4,
      encryption_types: ["aes256-cts-hmac-sha1-96"],
      file_permissions: "0640",
      file_owner: "root:apache",
      keytab_hash: file.keytabHash,
      is_managed: false,
      managed_keytab_id: null,
      state: "discovered",
      drifted: false,
      ignored_reason: null,
      instances: 1,
      findings: ["group_readable"],
    });
    expect(record.discovered_at).to.equal(record.last_seen_at);
  });

  it("may have every kvno that a file can have", async () => {
    await host.report([someFile(path, { kvnos: [4_294_967_295] })]);

    expect((await recordOf(server.admin, host)).kvno).to.equal(4_294_967_295);
  });

  it("that says the same again moves last_seen_at, and nothing else", async () => {
    const file = someFile(path);
    await host.report([file]);
    const before = await recordOf(server.admin, host);

    const answer = await host.report([file]);

    const after = await recordOf(server.admin, host);
    expect(answer).to.include({ discovered: 0, changed: 0, stale: 0 });
    expect(Date.parse(after.last_seen_at)).to.be.greaterThan(Date.parse(before.last_seen_at));
    expect({ ...after, last_seen_at: "" }).to.deep.equal({ ...before, last_seen_at: "" });
  });

  it("that says the same again writes each row into the page that it is in, so that no index changes", async () => {
    const files = someFiles(200);
    const pages = () =>
      server.sql("select id, (ctid::text::point)[0] as page from discovered_keytab where agent_id = $1 order by id", [
        host.id,
      ]);
    await host.report(files);
    const before = await pages();

    await host.report(files);

    expect(await pages()).to.deep.equal(before);
  });

  it("counts a file with other bytes as changed, and keeps its record", async () => {
    await host.report([someFile(path, { principal: "host/old@EXAMPLE.COM" }), someFile("/etc/other.keytab")]);
    const before = await recordOf(server.admin, host, path);

    const file = someFile(path, { principal: "host/new@EXAMPLE.COM", kvnos: [7], filePermissions: "0644" });
    const answer = await host.report([file], { complete: false });

    const after = await recordOf(server.admin, host, path);
    expect(answer).to.include({ discovered: 0, changed: 1, stale: 0 });
    expect(after).to.deep.include({
      id: before.id,
      discovered_at: before.discovered_at,
      keytab_hash: file.keytabHash,
      principal: "host/new@EXAMPLE.COM",
      kvno: 7,
      findings: ["world_readable", "group_readable"],
    });
  });

  it("does not count a file as changed of which only the owner is another", async () => {
    const file = someFile(path);
    await host.report([file]);

    const answer = await host.report([{ ...file, fileOwner: "apache:apache" }]);

    expect(answer).to.include({ discovered: 0, changed: 0 });
    expect((await recordOf(server.admin, host)).file_owner).to.equal("apache:apache");
  });

  it("is kept with canonical names of encryption types, each once, and with those that nobody knows as they are", async () => {
    const encryptionTypes = ["rc4-hmac", "AES256-CTS", "aes256-sha1", "etype-999", "etype-17", "rot13"];

    await host.report([someFile(path, { encryptionTypes })]);

    expect((await recordOf(server.admin, host)).encryption_types).to.deep.equal([
      "arcfour-hmac",
      "aes256-cts-hmac-sha1-96",
      "etype-999",
      "aes128-cts-hmac-sha1-96",
      "rot13",
    ]);
  });

  it("may name every path that a host can have", async () => {
    const random = Array.from({ length: 120 }, () => randomUUID()).join("/");
    const paths = [
      `/${random.slice(0, 4095)}`,
      `/etc/${"ü".repeat(4000)}.keytab`,
      "/etc/back\\slash.keytab",
      "/etc/\\x00.keytab",
      "/etc/\\\\.keytab",
      "/etc/quo\"te'.keytab",
      "/etc/new\nline.keytab",
      "/etc/%_*.keytab",
    ];
    const files = paths.map((each) => someFile(each, { principal: `HTTP/\\"'${"x".repeat(8000)}@R`, realm: "R\\" }));

    const first = await host.report(files);
    const again = await host.report(files);

    const kept = (await discovered(server.admin, `agent_id=${host.id}`)).map((record) => record.file_path);
    expect([first.discovered, again.discovered]).to.deep.equal([paths.length, 0]);
    expect(kept).to.have.members(paths);
  });

  it("of 5,000 files is taken in one part", async () => {
    const answer = await host.report(someFiles(5000));

    const { body } = await server.admin.rest("GET", `/api/v1/keytabs/discovered?agent_id=${host.id}&limit=1`);
    expect(answer.discovered).to.equal(5000);
    expect(body.total).to.equal(5000);
  });

  it("of 5,001 files is a request that cannot be served, over gRPC and over Connect", async () => {
    const keytabs = someFiles(5001);
    const scanId = randomUUID();

    const overConnect = await host.client
      .connect(KeytabReportService)
      .reportKeytabs({ scanId, keytabs })
      .catch((error: unknown) => error);

    expect(await fieldsAtFault(host.report(keytabs))).to.deep.equal(["keytabs"]);
    expect(overConnect).to.be.an("error").with.property("rawMessage", "Request validation failed");
    expect(await discovered(server.admin, `agent_id=${host.id}`)).to.deep.equal([]);
  });

  const refused = [
    {
      why: "has paths twice",
      files: ["/etc/a", "/etc/b", "/etc/a", "/etc/a"].map((each) => someFile(each)),
      fields: ["keytabs[2].file_path", "keytabs[3].file_path"],
    },
    { why: "has a relative path", files: [someFile("etc/a")], fields: ["keytabs[0].file_path"] },
    {
      why: "has a path longer than any",
      files: [someFile(path), someFile(`/${"a".repeat(4096)}`)],
      fields: ["keytabs[1].file_path"],
    },
    {
      why: "has a hash that is none",
      files: [someFile(path, { keytabHash: "x" })],
      fields: ["keytabs[0].keytab_hash"],
    },
    { why: "has a file without keys", files: [someFile(path, { kvnos: [] })], fields: ["keytabs[0].kvnos"] },
    {
      why: "has permissions that are none",
      files: [someFile(path, { filePermissions: "rw-r" })],
      fields: ["keytabs[0].file_permissions"],
    },
    {
      why: "has a text that cannot be stored",
      files: [someFile(path, { principal: "a\0b@R" })],
      fields: ["keytabs[0].principal"],
    },
  ];
  for (const { why, files, fields } of refused) {
    it(`that ${why} is refused, and nothing of it is kept`, async () => {
      expect(await fieldsAtFault(host.report(files))).to.deep.equal(fields);
      expect(await discovered(server.admin, `agent_id=${host.id}`)).to.deep.equal([]);
    });
  }
});

describe("Who reports keytabs", () => {
  it("is an agent that is not disabled", async () => {
    await server.admin.rest("POST", `/api/v1/agents/${host.id}/disable`);

    expect(await refusalOf(host.report([someFile(path)]))).to.match(/^PERMISSION_DENIED: /);
    expect(await discovered(server.admin, `agent_id=${host.id}`)).to.deep.equal([]);
  });

  it("is nobody who only has the permission", async () => {
    const client = await server.as("no-agent", ["agent"]);
    const reports = client.grpc(KeytabReportService);
    const report = { scanId: randomUUID(), keytabs: [someFile(path)] };

    expect(await refusalOf(reports.reportKeytabs(report, client.metadata()))).to.match(/^PERMISSION_DENIED: /);
    reports.close();
  });

  it("has records of its own, also of the same path as another agent, of this or another organization", async () => {
    const other = await server.otherOrganization();
    const beside = await Host.enroll(server);
    const foreign = await Host.enroll(server, { by: other.admin });
    const file = someFile(path);

    for (const each of [host, beside, foreign]) {
      expect((await each.report([file])).discovered).to.equal(1);
    }

    expect((await recordOf(server.admin, host)).instances).to.equal(2);
    expect((await recordOf(other.admin, foreign)).instances).to.equal(1);
    expect(await discovered(other.admin)).to.have.length(1);
    for (const each of [beside, foreign]) each.close();
  });
});

describe("Reports of one agent at the same time", () => {
  it("are all kept, whatever the order of their paths and whatever they make stale", async () => {
    const files = someFiles(100);
    await host.report(files);
    const odd = files.filter((_, index) => index % 2 === 1);
    const even = files.filter((_, index) => index % 2 === 0).toReversed();

    // Each finds what the others make stale.
    for (let round = 0; round < 8; round += 1) {
      await Promise.all([odd, even, odd, even].map((found) => host.report(found)));
    }

    const [{ stale }] = await server.sql(
      "select count(*) filter (where stale)::int as stale from discovered_keytab where agent_id = $1",
      [host.id],
    );
    expect(stale).to.equal(50);
  });
});

describe("The audit log of reports", () => {
  it("has one event with counts for a report that discovers, changes or misses files", async () => {
    const [kept, gone] = [someFile("/etc/kept"), someFile("/etc/gone")];
    await host.report([kept, gone]);
    await host.report([someFile("/etc/kept"), someFile("/etc/new")]);

    const common = {
      actor_type: "agent",
      resource_type: "agent",
      resource_id: host.id,
      resource_name: host.hostname,
      outcome: "success",
    };
    const [first, second, ...more] = await events();
    expect(first).to.deep.include({
      ...common,
      details: { ...nothing, discovered: 2 },
    });
    expect(second).to.deep.include({
      ...common,
      details: { ...nothing, discovered: 1, changed: 1, stale: 1 },
    });
    expect(more).to.deep.equal([]);
  });

  it("has none for a report that says nothing new", async () => {
    const file = someFile(path);
    await host.report([file]);

    await host.report([file]);
    await host.report([file], { complete: false });
    await host.report([], { complete: false });

    expect(await events()).to.have.length(1);
  });

  it("says when files are back", async () => {
    const file = someFile(path);
    await host.report([file]);
    await host.report([]);

    await host.report([file]);

    expect((await events()).at(-1)?.details).to.deep.equal({ ...nothing, returned: 1 });
  });
});
