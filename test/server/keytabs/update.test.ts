import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const at = (id: string) => `/api/v1/keytabs/${id}`;
const put = (id: string, body: unknown, headers: Record<string, string> = {}) =>
  server.admin.rest("PUT", at(id), body, headers);
const read = async (id: string) => (await server.admin.rest("GET", at(id))).body;
const versionsOf = async (id: string) => (await server.admin.rest("GET", `${at(id)}/history`)).body.length as number;
const base64 = (file: Buffer) => file.toString("base64");
const eventOf = async (id: string) => {
  const [event] = await server.sql(
    "select * from audit_event where resource_id = $1 and action = 'keytab.update' order by occurred_at desc limit 1",
    [id],
  );
  return { ...event, details: JSON.parse(event.details) };
};

describe("UpdateKeytab", () => {
  it("replaces the file: what was parsed follows it, and the version is one more", async () => {
    const keytab = await importKeytab(server.admin, newKeytab(), { notes: "n", project_id: server.projectId });
    const parts = { principal: "host/db", realm: "AD.EXAMPLE.COM", kvno: 300, enctypes: [23, 3] };

    const { status, body } = await put(keytab.id, { keytab_data: base64(newKeytab(parts)), change_reason: "rotated" });

    expect(status).to.equal(200);
    const { updated_at, keytab_hash } = body;
    expect(keytab_hash).not.to.equal(keytab.keytab_hash);
    expect(Date.parse(updated_at)).to.be.above(Date.parse(keytab.updated_at));
    expect(body).to.deep.equal({
      ...keytab,
      principal: "host/db@AD.EXAMPLE.COM",
      realm: "AD.EXAMPLE.COM",
      kvno: 300,
      encryption_types: ["arcfour-hmac", "des-cbc-md5"],
      entry_count: 2,
      cipher_compliance: "non_compliant",
      version: 2,
      updated_at,
      keytab_hash,
    });
    expect(await read(keytab.id)).to.deep.equal(body);
    expect((await server.admin.rest("GET", at(keytab.id))).headers.get("etag")).to.equal('"2"');
  });

  it("changes nothing when the file is the one that is there", async () => {
    const file = newKeytab();
    const keytab = await importKeytab(server.admin, file);

    const { status, body } = await put(keytab.id, { keytab_data: base64(file) });

    expect(status).to.equal(200);
    expect(body).to.deep.equal(keytab);
    expect(await versionsOf(keytab.id)).to.equal(1);
  });

  it("takes a file back that an earlier version had", async () => {
    const file = newKeytab();
    const { id, keytab_hash } = await importKeytab(server.admin, file);
    await put(id, { keytab_data: base64(newKeytab()) });

    const { body } = await put(id, { keytab_data: base64(file) });

    expect(body).to.include({ version: 3, keytab_hash });
  });

  it("is 409 for a file that another keytab has, and changes nothing", async () => {
    const file = newKeytab();
    await importKeytab(server.admin, file);
    const keytab = await importKeytab(server.admin);

    const { status, body } = await put(keytab.id, { keytab_data: base64(file), name: "renamed" });

    expect(status).to.equal(409);
    expect(body.error.details[0].field).to.equal("keytab_data");
    expect(await read(keytab.id)).to.deep.equal(keytab);
    expect(await versionsOf(keytab.id)).to.equal(1);
  });

  it("takes a file of another principal or an older key version, and says so on the record", async () => {
    const { id } = await importKeytab(server.admin, newKeytab({ kvno: 5 }));

    const { body } = await put(id, { keytab_data: base64(newKeytab({ principal: "host/b", kvno: 4 })) });
    const event = await eventOf(id);
    await put(id, { keytab_data: base64(newKeytab({ principal: "host/b", kvno: 6 })) });

    expect(body).to.include({ principal: "host/b@EXAMPLE.COM", kvno: 4 });
    const before = { principal_before: "HTTP/web.example.com@EXAMPLE.COM", kvno_before: 5 };
    expect(event.details).to.deep.equal({ version: 2, principal: "host/b@EXAMPLE.COM", kvno: 4, ...before });
    expect((await eventOf(id)).details).to.deep.equal({ version: 3, principal: "host/b@EXAMPLE.COM", kvno: 6 });
  });

  it("changes what is mentioned, and nothing else", async () => {
    const fields = { notes: "n", expires_at: "2040-01-01T00:00:00.000Z" };
    const keytab = await importKeytab(server.admin, newKeytab(), fields);
    const cases: Record<string, unknown>[] = [
      { name: "renamed" },
      { notes: "noted" },
      { notes: "" },
      { expires_at: "2041-01-01T00:00:00.000Z" },
      { status: "disabled" },
      { expires_at: "0001-01-01T00:00:00.000Z" },
      { notes: "ended long ago" },
      { expires_at: "9999-12-31T23:59:59.999Z" },
      { status: "active" },
      { expires_at: null },
    ];
    let expected = keytab;
    for (const fields of cases) {
      const { status, body } = await put(keytab.id, fields);

      expect(status, JSON.stringify(fields)).to.equal(200);
      expected = { ...expected, ...fields, updated_at: body.updated_at };
      expect(body, JSON.stringify(fields)).to.deep.equal(expected);
    }
    expect(expected.version).to.equal(1);
  });

  it("clears notes and expires_at by null, and reads null as nothing said for the rest", async () => {
    const { id } = await importKeytab(server.admin, newKeytab(), { notes: "n", expires_at: "2040-01-01T00:00:00Z" });

    const { status, body } = await put(id, {
      notes: null,
      expires_at: null,
      name: null,
      status: null,
      keytab_data: null,
    });

    expect(status).to.equal(200);
    expect(body).to.include({ notes: "", expires_at: null, name: "web server", status: "active", version: 1 });
  });

  it("leaves the record as it is when nothing differs", async () => {
    const keytab = await importKeytab(server.admin, newKeytab(), { notes: "n", expires_at: "2040-01-01T00:00:00Z" });

    for (const fields of [
      {},
      { name: keytab.name, notes: "n", expires_at: "2040-01-01T00:00:00Z", status: "active" },
    ]) {
      const { status, body } = await put(keytab.id, fields);

      expect(status).to.equal(200);
      expect(body).to.deep.equal(keytab);
    }
  });

  it("does not move what is not to be changed", async () => {
    const keytab = await importKeytab(server.admin);

    const { body } = await put(keytab.id, {
      project_id: server.projectId,
      principal: "a@R",
      version: 7,
      source: "agent",
    });

    expect(body).to.deep.equal(keytab);
  });

  it("is 409 for another version than the one that was expected, and changes nothing", async () => {
    const keytab = await importKeytab(server.admin);
    const { id } = keytab;
    const fields = { keytab_data: base64(newKeytab()), name: "renamed" };
    const requests: [Record<string, unknown>, Record<string, string>][] = [
      [{ ...fields, expected_version: 2 }, {}],
      [{ ...fields, cas: 2 }, {}],
      [fields, { "if-match": '"2"' }],
    ];
    for (const [request, headers] of requests) {
      const { status, body } = await put(id, request, headers);

      expect(status).to.equal(409);
      expect(body.error.details[0].field).to.equal("expected_version");
      expect(await read(id)).to.deep.equal(keytab);
    }
    expect((await put(id, fields, { "if-match": '"1"' })).status).to.equal(200);
    expect((await put(id, { notes: "n", expected_version: 2 })).status).to.equal(200);
  });

  it("refuses every value outside the limits, naming the field and changing nothing", async () => {
    const keytab = await importKeytab(server.admin);
    const cases: [string, Record<string, unknown>][] = [
      ["name", { name: "" }],
      ["name", { name: "n".repeat(256) }],
      ["notes", { notes: "n".repeat(1025) }],
      ["keytab_data", { keytab_data: "" }],
      ["keytab_data", { keytab_data: "not base64!" }],
      ["expires_at", { expires_at: "2030-01-01" }],
      ["status", { status: "expired" }],
      ["status", { status: "deleted" }],
      ["status", { status: "" }],
      ["change_reason", { change_reason: "r".repeat(1001) }],
      ["expected_version", { expected_version: 0 }],
      ["header.If-Match", {}],
    ];
    for (const [field, fields] of cases) {
      const headers: Record<string, string> = field.startsWith("header.") ? { "if-match": "new" } : {};
      const { status, body } = await put(keytab.id, fields, headers);

      expect(status, field).to.equal(400);
      expect(
        body.error.details.map((each: { field: string }) => each.field),
        field,
      ).to.deep.equal([field]);
    }
    expect(await read(keytab.id)).to.deep.equal(keytab);
  });

  it("changes over gRPC what the mask names, or what is set", async () => {
    const { id } = await importKeytab(server.admin, newKeytab(), { notes: "n", expires_at: "2040-01-01T00:00:00Z" });
    const client = server.admin.grpc(KeytabService);
    const metadata = server.admin.metadata();

    const set = await client.updateKeytab({ id, name: "set" }, metadata);
    const cleared = await client.updateKeytab(
      { id, name: "no", updateMask: { paths: ["expires_at", "notes"] } },
      metadata,
    );
    const replaced = await client.updateKeytab({ id, keytabData: newKeytab() }, metadata);
    client.close();

    expect(set).to.include({ name: "set", notes: "n" });
    expect(set.expiresAt).not.to.equal(undefined);
    expect(cleared).to.include({ name: "set", notes: "" });
    expect(cleared.expiresAt).to.equal(undefined);
    expect(replaced).to.include({ version: 2, name: "set" });
  });

  it("is recorded with its reason, and with the project that the keytab belongs to", async () => {
    const { id } = await importKeytab(server.admin, newKeytab(), { project_id: server.projectId });

    await put(id, { name: "renamed", change_reason: "because" });

    expect(await eventOf(id)).to.deep.include({
      outcome: "success",
      resource_name: "renamed",
      project_id: server.projectId,
      reason: "because",
      details: {},
    });
  });
});
