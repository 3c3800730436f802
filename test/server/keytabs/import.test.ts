import { createHash } from "node:crypto";
import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs";
const base64 = (file: Buffer) => file.toString("base64");
const post = (fields: Record<string, unknown>) =>
  server.admin.rest("POST", path, { name: "k", keytab_data: base64(newKeytab()), ...fields });
const stored = async () => (await server.sql("select count(*)::int as n from keytab"))[0].n as number;

describe("ImportKeytab", () => {
  it("answers 201 with the whole record, a Location, and never the file", async () => {
    const file = newKeytab({ kvno: 7, enctypes: [20, 18] });

    const { status, headers, body } = await post({ keytab_data: base64(file) });

    const { id, organization_id, created_at, updated_at, ...rest } = body;
    expect(status).to.equal(201);
    expect(id).to.match(/^kt_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(headers.get("location")).to.equal(`${path}/${id}`);
    const [organization] = await server.sql("select id from organization");
    expect(organization_id).to.equal(organization.id);
    expect(created_at).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(updated_at).to.equal(created_at);
    expect(rest).to.deep.equal({
      project_id: null,
      name: "k",
      principal: "HTTP/web.example.com@EXAMPLE.COM",
      realm: "EXAMPLE.COM",
      kvno: 7,
      encryption_types: ["aes256-cts-hmac-sha384-192", "aes256-cts-hmac-sha1-96"],
      status: "active",
      cipher_compliance: "compliant",
      source: "import",
      storage_mode: "full",
      offload_status: "local",
      version: 1,
      entry_count: 2,
      keytab_hash: createHash("sha256").update(file).digest("hex"),
      expires_at: null,
      notes: "",
    });
  });

  it("keeps every optional field, and reads back as it was answered", async () => {
    const given = { expires_at: "2040-02-29T12:00:00.123Z", project_id: server.projectId, notes: "for the 🔑 proxy" };

    const { status, body } = await post(given);

    expect(status).to.equal(201);
    expect(body).to.include(given);
    const { body: read } = await server.admin.rest("GET", `${path}/${body.id}`);
    expect(read).to.deep.equal(body);
  });

  it("has a first version that says it was imported, by whom", async () => {
    const { id } = await importKeytab(server.admin);

    const { body } = await server.admin.rest("GET", `${path}/${id}/history`);

    expect(body).to.have.length(1);
    expect(body[0]).to.include({ version: 1, change_reason: "imported", changed_by: server.admin.id });
  });

  it("takes base64 and base64url, padded or not, with line breaks", async () => {
    const spellings: Record<string, (file: Buffer) => string> = {
      base64,
      "base64 without padding": (file) => base64(file).replaceAll("=", ""),
      base64url: (file) => base64(file).replaceAll("+", "-").replaceAll("/", "_"),
      "base64url without padding": (file) => file.toString("base64url"),
      "lines as base64(1) makes them": (file) => base64(file).replaceAll(/.{76}/g, "$&\n"),
      "lines of Windows": (file) => `${base64(file).replaceAll(/.{64}/g, "$&\r\n")}\r\n`,
    };
    for (const [name, spell] of Object.entries(spellings)) {
      for (const length of [0, 1, 2]) {
        const file = Buffer.concat([newKeytab({ enctypes: [18, 17] }), Buffer.alloc(length)]);

        const { status, body } = await post({ keytab_data: spell(file) });

        expect(status, `${name}: ${JSON.stringify(body)}`).to.equal(201);
        expect(body.keytab_hash, name).to.equal(createHash("sha256").update(file).digest("hex"));
      }
    }
  });

  it("takes camelCase, ignores fields it does not know, and reads null as nothing given", async () => {
    const { status, body } = await server.admin.rest("POST", path, {
      name: "camel",
      keytabData: base64(newKeytab()),
      projectId: server.projectId,
      expiresAt: null,
      notes: null,
      status: "disabled",
      source: "agent",
    });

    expect(status).to.equal(201);
    const expected = { project_id: server.projectId, expires_at: null, notes: "", status: "active", source: "import" };
    expect(body).to.include(expected);
  });

  it("takes every value that the limits allow", async () => {
    const cases: Record<string, Record<string, unknown>> = {
      "a name of 255 code points": { name: "🔑".repeat(255) },
      "a name that another keytab has": { name: "k" },
      "notes of 1024 characters": { notes: "é".repeat(1024) },
      "a kvno of 32 bits": { keytab_data: base64(newKeytab({ kvno: 2 ** 32 - 1 })) },
      "a file of 1 MiB": {
        keytab_data: base64(Buffer.concat([newKeytab(), Buffer.alloc(2 ** 20)]).subarray(0, 2 ** 20)),
      },
      "10,000 entries": {
        keytab_data: base64(newKeytab({ principal: "a", realm: "R", enctypes: Array(10_000).fill(18) })),
      },
      "the last instant": { expires_at: "9999-12-31T23:59:59.999Z" },
      "the first instant": { expires_at: "0001-01-01T00:00:00.000Z" },
    };
    for (const [why, fields] of Object.entries(cases)) {
      const { status, body } = await post(fields);

      expect(status, `${why}: ${JSON.stringify(body)}`).to.equal(201);
      const { keytab_data: _, ...kept } = fields;
      const { body: read } = await server.admin.rest("GET", `${path}/${body.id}`);
      expect(read, why).to.deep.equal(body);
      expect(read, why).to.include(kept);
    }
  });

  it("refuses every value outside the limits, naming the field and storing nothing", async () => {
    const before = await stored();
    const tooLong = Buffer.concat([newKeytab(), Buffer.alloc(2 ** 20)]).subarray(0, 2 ** 20 + 1);
    const cases: [string, Record<string, unknown>][] = [
      ["name", { name: undefined }],
      ["name", { name: "" }],
      ["name", { name: "n".repeat(256) }],
      ["name", { name: "nul\u0000" }],
      ["keytab_data", { keytab_data: undefined }],
      ["keytab_data", { keytab_data: null }],
      ["keytab_data", { keytab_data: "" }],
      ["keytab_data", { keytab_data: "not base64!" }],
      ["keytab_data", { keytab_data: 5 }],
      ["keytab_data", { keytab_data: ["BQI="] }],
      ["keytab_data", { keytab_data: base64(tooLong) }],
      [
        "keytab_data",
        { keytab_data: base64(newKeytab({ principal: "a", realm: "R", enctypes: Array(10_001).fill(18) })) },
      ],
      ["expires_at", { expires_at: "2030-01-01" }],
      ["expires_at", { expires_at: 1_893_456_000 }],
      ["expires_at", { expires_at: "tomorrow" }],
      ["expires_at", { expires_at: "10000-01-01T00:00:00Z" }],
      ["project_id", { project_id: "default" }],
      ["notes", { notes: "n".repeat(1025) }],
      ["notes", { notes: "nul\u0000" }],
    ];
    for (const [field, fields] of cases) {
      const { status, body } = await post(fields);

      const why = `${JSON.stringify(fields).slice(0, 80)}: ${JSON.stringify(body)}`;
      expect(status, why).to.equal(400);
      expect(body.error.code, why).to.equal("VALIDATION_ERROR");
      expect(
        body.error.details.map((each: { field: string }) => each.field),
        why,
      ).to.include(field);
    }
    expect(await stored()).to.equal(before);
  });

  it("refuses times that no calendar has, over gRPC too", async () => {
    const client = server.admin.grpc(KeytabService);
    for (const seconds of [-62_135_596_801n, 253_402_300_800n, 2n ** 62n]) {
      const request = { name: "k", keytabData: newKeytab(), expiresAt: { seconds, nanos: 0 } };

      const error = await client
        .importKeytab(request, server.admin.metadata())
        .catch((thrown: { code: number }) => thrown);

      expect(error, String(seconds)).to.have.property("code", 3);
    }
    client.close();
  });

  it("is 404 that names project_id when the project is not there for the caller", async () => {
    const other = await server.otherOrganization();
    const before = await stored();
    for (const project_id of ["00000000-0000-7000-8000-000000000000", other.projectId]) {
      const { status, body } = await post({ project_id });

      expect(status).to.equal(404);
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
      expect(body.error.details.map((each: { field: string }) => each.field)).to.deep.equal(["project_id"]);
    }
    expect(await stored()).to.equal(before);
  });

  it("is 409 when the organization has the file already, under whatever name", async () => {
    const file = newKeytab();
    await importKeytab(server.admin, file);
    const before = await stored();

    const { status, body } = await post({ name: "another", keytab_data: base64(file), project_id: server.projectId });

    expect(status).to.equal(409);
    expect(body.error.code).to.equal("RESOURCE_CONFLICT");
    expect(body.error.details[0].field).to.equal("keytab_data");
    expect(await stored()).to.equal(before);
  });

  it("is 201 for a file that another organization has", async () => {
    const other = await server.otherOrganization();
    const file = newKeytab();

    const ours = await importKeytab(server.admin, file);
    const theirs = await importKeytab(other.admin, file);

    expect(theirs.keytab_hash).to.equal(ours.keytab_hash);
    expect(theirs.organization_id).not.to.equal(ours.organization_id);
  });

  it("is 201 for a file that is only an older version of another keytab", async () => {
    const [first, second] = [newKeytab(), newKeytab()];
    const { id } = await importKeytab(server.admin, first);
    await server.admin.rest("PUT", `${path}/${id}`, { keytab_data: base64(second) });

    expect((await post({ keytab_data: base64(first) })).status).to.equal(201);
    expect((await post({ keytab_data: base64(second) })).status).to.equal(409);
  });

  it("makes one keytab however often it is sent under one Idempotency-Key", async () => {
    const request = { name: "once", keytab_data: base64(newKeytab()) };
    const send = () => server.admin.rest("POST", path, request, { "idempotency-key": "once" });

    const [first, second] = [await send(), await send()];

    expect([first.status, second.status]).to.deep.equal([201, 201]);
    expect(second.body).to.deep.equal(first.body);
  });

  it("is recorded with what was imported, and with what is worth a second look", async () => {
    const plain = await importKeytab(server.admin, newKeytab(), { project_id: server.projectId });
    const parts = [1, 2, 3].map((kvno) => ({ principal: "krbtgt/example.com", realm: "example.com", kvno }));
    const odd = await importKeytab(server.admin, newKeytab(...parts, ...parts));

    const events = await server.sql(
      "select resource_id, resource_name, project_id, details from audit_event where action = 'keytab.import' and resource_id = any($1)",
      [[plain.id, odd.id]],
    );

    const [first, second] = [plain, odd].map(({ id }) => events.find(({ resource_id }) => resource_id === id));
    expect(first).to.include({ resource_name: "web server", project_id: server.projectId });
    expect(JSON.parse(first.details)).to.deep.equal({ version: 1, principal: plain.principal, kvno: 1 });
    expect(JSON.parse(second.details).warnings).to.have.members([
      "realm_key",
      "realm_case",
      "old_kvnos",
      "conflicting_keys",
    ]);
  });

  it("says over gRPC what it says over REST", async () => {
    const client = server.admin.grpc(KeytabService);
    const file = newKeytab({ kvno: 2 ** 32 - 1 });

    const made = await client.importKeytab({ name: "rpc", keytabData: file }, server.admin.metadata());
    const again = await client
      .importKeytab({ name: "rpc", keytabData: file }, server.admin.metadata())
      .catch((error) => error);
    client.close();

    const { body } = await server.admin.rest("GET", `${path}/${made.id}`);
    expect(body).to.include({ kvno: made.kvno, keytab_hash: made.keytabHash, name: "rpc" });
    expect(made.kvno).to.equal(2 ** 32 - 1);
    expect(again).to.have.property("code", 6);
  });
});
