import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { metadataKeys, rotationKeys } from "./record-keys.ts";

const server = useServer();

const create = (fields: Record<string, unknown>) =>
  server.admin.rest("POST", "/api/v1/secrets", { project_id: server.projectId, value: "v", ...fields });

describe("CreateSecret", () => {
  it("answers 201 with exactly the metadata, a Location, and never the value", async () => {
    const { status, headers, body } = await create({ key: "DB_PASSWORD", value: "hunter2-hunter2" });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`/api/v1/secrets/${body.id}`);
    expect(body).to.have.all.keys(metadataKeys);
    expect(body.rotation).to.have.all.keys(rotationKeys);
    expect(JSON.stringify(body)).not.to.include("hunter2");
  });

  it("fills everything that was not given with its neutral value", async () => {
    const { body } = await create({ key: "plain" });

    const { id, created_at, updated_at, ...rest } = body;
    expect(id).to.match(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(created_at).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(updated_at).to.equal(created_at);
    expect(rest).to.deep.equal({
      name: "plain",
      key: "plain",
      type: "generic",
      description: "",
      version: 1,
      tags: [],
      rotation: { enabled: false, interval_days: null, last_rotated: null, next_rotation: null },
      project_id: server.projectId,
      environment: null,
      status: "active",
      expires_at: null,
      created_by: server.admin.id,
      metadata: {},
      archived_at: null,
      deleted_at: null,
    });
  });

  it("keeps every optional field, and reads back as it was answered", async () => {
    const given = {
      key: "everything",
      environment: "production",
      ttl_hours: 24,
      metadata: { owner: "payments", nested: { list: [1, "two", null, true, 2.5] } },
      change_reason: "first",
      type: "database",
      description: "the main database",
      tags: ["db", 'quote"d', "com,ma", "{brace}", "back\\slash", "NULL", "päss 🔑"],
      rotation: { enabled: true, interval_days: 7 },
    };

    const { status, body } = await create(given);

    expect(status).to.equal(201);
    const { key, environment, metadata, type, description, tags } = given;
    expect(body).to.deep.include({ key, environment, metadata, type, description, tags });
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).to.equal(24 * 3_600_000);
    expect(body.rotation).to.deep.include({ enabled: true, interval_days: 7, last_rotated: null });
    expect(Date.parse(body.rotation.next_rotation) - Date.parse(body.created_at)).to.equal(7 * 86_400_000);
    const { body: read } = await server.admin.rest("GET", `/api/v1/secrets/${body.id}`);
    expect(read).to.deep.equal({ ...body, value: "v" });
    const { body: versions } = await server.admin.rest("GET", `/api/v1/secrets/${body.id}/versions`);
    expect(versions.data[0]).to.deep.include({ change_type: "initial", change_reason: "first" });
  });

  it("takes name for key, camelCase for snake_case, and ignores fields it does not know", async () => {
    const { status, body } = await server.admin.rest("POST", "/api/v1/secrets", {
      name: "alias",
      value: "v",
      projectId: server.projectId,
      ttlHours: 1,
      color: "blue",
    });

    expect(status).to.equal(201);
    expect(body).to.include({ key: "alias", name: "alias" });
    expect(body.expires_at).to.be.a("string");
    expect(body).not.to.have.property("color");
  });

  it("removes duplicate tags and keeps their order", async () => {
    const { body } = await create({ key: "tagged", tags: ["b", "a", "b", "c", "a"] });

    expect(body.tags).to.deep.equal(["b", "a", "c"]);
  });

  it("reads an empty environment as none", async () => {
    const { body } = await create({ key: "nowhere", environment: "" });

    expect(body.environment).to.equal(null);
  });

  it("enables rotation without an interval at 30 days, and keeps an interval without enabling", async () => {
    const { body: enabled } = await create({ key: "rotating", rotation: { enabled: true } });
    const { body: prepared } = await create({ key: "prepared", rotation: { interval_days: 9 } });

    expect(enabled.rotation.interval_days).to.equal(30);
    expect(Date.parse(enabled.rotation.next_rotation) - Date.parse(enabled.created_at)).to.equal(30 * 86_400_000);
    expect(prepared.rotation).to.deep.include({ enabled: false, interval_days: 9, next_rotation: null });
  });

  it("takes every value and key that the limits allow", async () => {
    const cases: Record<string, Record<string, unknown>> = {
      "an empty value": { key: "empty", value: "" },
      "a value of 65,536 bytes": { key: "long-value", value: "ä".repeat(32_768) },
      "a value with every control character": { key: "control", value: "\u0000\u0001\n\r\u007f\uffff" },
      "a key of 255 code points": { key: "🔑".repeat(255) },
      "a key of one character": { key: "k" },
      "a key with inner spaces, slashes and quotes": { key: "a b/c'd\"e%_\\" },
      "an environment of 50 characters": { key: "environment-50", environment: "é".repeat(50) },
      "the shortest life": { key: "ttl-1", ttl_hours: 1 },
      "the longest life": { key: "ttl-8760", ttl_hours: 8760 },
      "a number as text": { key: "ttl-text", ttl_hours: "5" },
      "a reason of 1000 characters": { key: "reason", change_reason: "r".repeat(1000) },
      "a description of 1024 characters": { key: "description", description: "d".repeat(1024) },
      "50 tags of 64 characters": { key: "tags", tags: Array.from({ length: 50 }, (_, n) => `${n}`.padStart(64, "t")) },
      "metadata of 16 KiB": { key: "metadata", metadata: { a: "m".repeat(16 * 1024 - 8) } },
      "nulls for what is absent": { key: "nulls", environment: null, ttl_hours: null, metadata: null, tags: null },
    };
    for (const [why, fields] of Object.entries(cases)) {
      const { status, body } = await create(fields);

      expect(status, `${why}: ${JSON.stringify(body)}`).to.equal(201);
      const { body: read } = await server.admin.rest("GET", `/api/v1/secrets/${body.id}`);
      expect(read.value, why).to.equal("value" in fields ? fields["value"] : "v");
      expect(read.key, why).to.equal(fields["key"]);
    }
  });

  it("refuses every value outside the limits, naming the field and storing nothing", async () => {
    const before = await server.sql("select count(*)::int as n from secret");
    const cases: [string, Record<string, unknown>][] = [
      ["key", { key: "" }],
      ["key", { key: undefined }],
      ["key", { key: "k".repeat(256) }],
      ["key", { key: "tab\tbed" }],
      ["key", { key: "nul\u0000" }],
      ["key", { key: "del\u007f" }],
      ["key", { key: " leading" }],
      ["key", { key: "trailing " }],
      ["key", { key: "trailing\u00a0" }],
      ["key", { key: "one", name: "another" }],
      ["value", { key: "no-value", value: undefined }],
      ["value", { key: "null-value", value: null }],
      ["value", { key: "too-long", value: `${"ä".repeat(32_768)}a` }],
      ["value", { key: "number", value: 5 }],
      ["project_id", { key: "no-project", project_id: undefined }],
      ["project_id", { key: "bad-project", project_id: "default" }],
      ["environment", { key: "environment", environment: "e".repeat(51) }],
      ["ttl_hours", { key: "ttl", ttl_hours: 0 }],
      ["ttl_hours", { key: "ttl", ttl_hours: 8761 }],
      ["ttl_hours", { key: "ttl", ttl_hours: 1.5 }],
      ["ttl_hours", { key: "ttl", ttl_hours: true }],
      ["ttl_hours", { key: "ttl", ttl_hours: "" }],
      ["metadata", { key: "metadata", metadata: ["list"] }],
      ["metadata", { key: "metadata", metadata: "text" }],
      ["metadata", { key: "metadata", metadata: { a: "m".repeat(16 * 1024 - 7) } }],
      ["change_reason", { key: "reason", change_reason: "r".repeat(1001) }],
      ["type", { key: "type", type: "nuclear_code" }],
      ["description", { key: "description", description: "d".repeat(1025) }],
      ["tags", { key: "tags", tags: Array.from({ length: 51 }, (_, n) => `t${n}`) }],
      ["tags[1]", { key: "tags", tags: ["ok", "t".repeat(65)] }],
      ["tags[0]", { key: "tags", tags: [""] }],
      ["tags", { key: "tags", tags: { a: "b" } }],
      ["rotation.interval_days", { key: "rotation", rotation: { interval_days: 0 } }],
      ["rotation.interval_days", { key: "rotation", rotation: { interval_days: 3651 } }],
      ["rotation.enabled", { key: "rotation", rotation: { enabled: "perhaps" } }],
    ];
    for (const [field, fields] of cases) {
      const { status, body } = await create(fields);

      const why = `${JSON.stringify(fields).slice(0, 80)}: ${JSON.stringify(body)}`;
      expect(status, why).to.equal(400);
      expect(body.error.code, why).to.equal("VALIDATION_ERROR");
      expect(
        body.error.details.map((each: { field: string }) => each.field),
        why,
      ).to.include(field);
    }
    expect(await server.sql("select count(*)::int as n from secret")).to.deep.equal(before);
  });

  it("names every field that is wrong at once", async () => {
    const { body } = await create({ key: "", ttl_hours: 0, environment: "e".repeat(51) });

    const fields = body.error.details.map((each: { field: string }) => each.field);
    expect(fields).to.have.members(["key", "ttl_hours", "environment"]);
  });

  it("refuses text that is not well-formed Unicode instead of altering it", async () => {
    const { status, body } = await create({ key: "lone", value: "a\ud800b" });

    expect(status, JSON.stringify(body)).to.equal(400);
    expect(body.error.details[0].field).to.equal("value");
  });

  it("never repeats a value in a refusal", async () => {
    const { status, body } = await create({ key: "mistyped", value: { password: "hunter2-hunter2" } });

    expect(status).to.equal(400);
    expect(JSON.stringify(body)).not.to.include("hunter2");
  });

  it("answers 404 naming project_id for a project that is not there", async () => {
    const { status, body } = await create({ key: "k", project_id: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55" });

    expect(status).to.equal(404);
    expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
    expect(body.error.details).to.deep.equal([{ field: "project_id", message: "does not exist" }]);
  });
});
