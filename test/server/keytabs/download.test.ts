import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { keytabWriter, readable, version2 } from "../../standards/keytab-files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const at = (id: string) => `/api/v1/keytabs/${id}`;
const put = (id: string, body: unknown) => server.admin.rest("PUT", at(id), body);
const { file, entry } = keytabWriter(version2);

async function download(id: string, { query = "", method = "GET", by = server.admin } = {}) {
  const headers = { authorization: `Bearer ${by.token}` };
  const response = await fetch(`${server.url}${at(id)}/download${query}`, { method, headers });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes };
}

async function downloadOverGrpc(id: string, by: Client = server.admin) {
  const client = by.grpc(KeytabService);
  const stream = client.downloadKeytab({ id }, by.metadata());
  const headers = new Promise<Record<string, unknown>>((resolve) =>
    stream.once("metadata", (each) => resolve(each.getMap())),
  );
  const pieces: Buffer[] = [];
  const contentTypes = new Set<string>();
  try {
    for await (const { data, contentType } of stream) {
      pieces.push(Buffer.from(data));
      contentTypes.add(contentType);
    }
  } finally {
    client.close();
  }
  return { bytes: Buffer.concat(pieces), pieces, contentTypes: [...contentTypes], headers: await headers };
}

const events = (id: string) =>
  server.sql("select * from audit_event where resource_id = $1 and action = 'keytab.download' order by occurred_at", [
    id,
  ]);

/** Runs `work` while the audit log cannot be written. */
async function withoutAuditLog<T>(work: () => Promise<T>): Promise<T> {
  await server.sql("alter table audit_event rename to audit_event_away");
  try {
    return await work();
  } finally {
    await server.sql("alter table audit_event_away rename to audit_event");
  }
}

describe("DownloadKeytab", () => {
  it("answers the exact bytes, as a file to save, with their hash", async () => {
    const given = newKeytab({ principal: "HTTP/web.example.com" });
    const { id, keytab_hash } = await importKeytab(server.admin, given);

    const { status, headers, bytes } = await download(id);

    expect(status).to.equal(200);
    expect(bytes.equals(given)).to.equal(true);
    expect(headers.get("content-type")).to.equal("application/octet-stream");
    expect(headers.get("content-disposition")).to.equal('attachment; filename="HTTP_web.example.com.keytab"');
    expect(headers.get("content-length")).to.equal(String(given.length));
    expect(headers.get("etag")).to.equal(`"${keytab_hash}"`);
    expect(headers.get("cache-control")).to.equal("no-store");
  });

  it("answers the bytes of files of other programs, holes, padding and all", async () => {
    for (const { name, bytes: given } of readable) {
      const { id } = await importKeytab(server.admin, given);

      const { bytes } = await download(id);

      expect(bytes.equals(given), name).to.equal(true);
    }
  });

  it("answers a file of 1 MiB, in pieces", async () => {
    const given = Buffer.concat([newKeytab(), Buffer.alloc(2 ** 20)]).subarray(0, 2 ** 20);
    const { id } = await importKeytab(server.admin, given);

    const { headers, bytes } = await download(id);
    const { pieces } = await downloadOverGrpc(id);

    expect(headers.get("content-length")).to.equal(String(2 ** 20));
    expect(bytes.equals(given)).to.equal(true);
    expect(pieces.map(({ length }) => length)).to.deep.equal(Array(16).fill(64 * 1024));
    expect(Buffer.concat(pieces).equals(given)).to.equal(true);
  });

  it("names the file after its principal without the realm, in letters that every system takes", async () => {
    const cases: [(string | Buffer)[], string][] = [
      [["host", "db-1.example.com"], "host_db-1.example.com.keytab"],
      [["WEB01$"], "WEB01_.keytab"],
      [["alice@partner.example.net"], "alice_partner.example.net.keytab"],
      [["a/b", "c\\d"], "a_b_c_d.keytab"],
      [['quo"te', "new\nline", "nul\0"], "quo_te_new_line_nul_0.keytab"],
      [["jörg🔑"], "j_rg_.keytab"],
      [[Buffer.from([0x6a, 0xe9])], "j_xe9.keytab"],
      [["n".repeat(1000)], `${"n".repeat(248)}.keytab`],
    ];
    for (const [components, name] of cases) {
      const { id } = await importKeytab(server.admin, file(entry({ components, key: newKeytab().subarray(-32) })));

      const { headers } = await download(id);

      expect(headers.get("content-disposition"), name).to.equal(`attachment; filename="${name}"`);
    }
  });

  it("answers an earlier version that is asked for, under its own name and hash", async () => {
    const [first, second] = [newKeytab({ principal: "host/old" }), newKeytab({ principal: "host/new" })];
    const { id, keytab_hash } = await importKeytab(server.admin, first);
    await put(id, { keytab_data: second.toString("base64") });

    const [old, current, latest] = [
      await download(id, { query: "?version=1" }),
      await download(id, { query: "?version=2" }),
      await download(id),
    ];

    expect(old.bytes.equals(first)).to.equal(true);
    expect(old.headers.get("etag")).to.equal(`"${keytab_hash}"`);
    expect(old.headers.get("content-disposition")).to.include("host_old.keytab");
    expect(current.bytes.equals(second)).to.equal(true);
    expect(latest.bytes.equals(second)).to.equal(true);
  });

  it("is 404 for a version that was never made, and 400 for what is no version", async () => {
    const { id } = await importKeytab(server.admin);
    const answers = await Promise.all(
      ["?version=2", "?version=0", "?version=-1", "?version=new"].map((query) =>
        server.admin.rest("GET", `${at(id)}/download${query}`),
      ),
    );

    expect(answers.map(({ status }) => status)).to.deep.equal([404, 400, 400, 400]);
    for (const { body, headers } of answers) {
      expect(body.error.details[0].field).to.equal("version");
      expect(headers.get("content-disposition")).to.equal(null);
    }
  });

  it("answers a disabled and an expired keytab too", async () => {
    const { id: disabled } = await importKeytab(server.admin);
    await put(disabled, { status: "disabled" });
    const { id: expired } = await importKeytab(server.admin, newKeytab(), { expires_at: "2020-01-01T00:00:00Z" });

    expect((await download(disabled)).status).to.equal(200);
    expect((await download(expired)).status).to.equal(200);
  });

  it("answers HEAD with the headers alone", async () => {
    const given = newKeytab();
    const { id } = await importKeytab(server.admin, given);

    const { status, headers, bytes } = await download(id, { method: "HEAD" });

    expect(status).to.equal(200);
    expect(headers.get("content-length")).to.equal(String(given.length));
    expect(headers.get("content-disposition")).to.include("HTTP_web.example.com.keytab");
    expect(bytes).to.have.length(0);
  });

  it("streams the same bytes over gRPC, whose messages are framed by no content-length", async () => {
    const given = newKeytab();
    const { id } = await importKeytab(server.admin, given);

    const { bytes, contentTypes, headers } = await downloadOverGrpc(id);

    expect(bytes.equals(given)).to.equal(true);
    expect(contentTypes).to.deep.equal(["application/octet-stream"]);
    expect(headers).not.to.have.property("content-length");
  });

  it("is recorded with the version that left, by whichever door", async () => {
    const { id } = await importKeytab(server.admin, newKeytab(), { project_id: server.projectId });
    await put(id, { keytab_data: newKeytab().toString("base64") });

    await download(id, { query: "?version=1" });
    await downloadOverGrpc(id);

    const recorded = await events(id);
    expect(recorded.map(({ details }) => JSON.parse(details))).to.deep.equal([{ version: 1 }, { version: 2 }]);
    for (const event of recorded) {
      expect(event).to.include({ outcome: "success", resource_name: "web server", project_id: server.projectId });
    }
  });

  it("lets no byte leave that is not on the record: 503 while the audit log cannot be written", async () => {
    const given = newKeytab();
    const { id } = await importKeytab(server.admin, given);

    const { rest, rpc } = await withoutAuditLog(async () => ({
      rest: await server.admin.rest("GET", `${at(id)}/download`),
      rpc: await downloadOverGrpc(id).catch((error: { code: number }) => error),
    }));

    expect(rest.status).to.equal(503);
    expect(rest.body.error.code).to.equal("SERVICE_UNAVAILABLE");
    expect(rest.headers.get("content-disposition")).to.equal(null);
    expect(rest.headers.get("etag")).to.equal(null);
    expect(rpc).to.have.property("code", 14);
    expect(rpc).not.to.have.property("bytes");
  });

  it("takes a permission of its own, which one who may read and change keytabs does not have", async () => {
    const { id } = await importKeytab(server.admin);
    const editor = await server.as("editor", ["editor"]);

    const { status, bytes } = await download(id, { by: editor });
    const rpc = await downloadOverGrpc(id, editor).catch((error: { code: number }) => error);

    expect(status).to.equal(403);
    expect(bytes.toString()).to.include("keytab:download");
    expect(rpc).to.have.property("code", 7);
    const denied = await server.sql(
      "select actor_name from audit_event where action = 'keytab.download' and outcome = 'denied'",
    );
    expect(denied).to.deep.equal([{ actor_name: "editor" }, { actor_name: "editor" }]);
  });
});
