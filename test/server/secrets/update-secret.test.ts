import { expect } from "chai";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { useServer } from "../../harness/server.ts";
import { metadataKeys } from "./record-keys.ts";

const server = useServer();
const dayMs = 86_400_000;

const put = (id: string, body: unknown, headers: Record<string, string> = {}) =>
  server.admin.rest("PUT", `/api/v1/secrets/${id}`, body, headers);
const get = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;

describe("UpdateSecret", () => {
  it("answers 200 with exactly the metadata, without the value", async () => {
    const { id } = await server.secret();

    const { status, body } = await put(id, { value: "hunter2-hunter2", description: "new" });

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(metadataKeys);
    expect(body).to.include({ version: 2, description: "new" });
    expect(JSON.stringify(body)).not.to.include("hunter2");
  });

  it("makes a new version of every value that is present, even an equal or an empty one", async () => {
    const { id } = await server.secret({ value: "same" });

    const versions = [];
    for (const value of ["same", "same", ""]) versions.push((await put(id, { value })).body.version);

    expect(versions).to.deep.equal([2, 3, 4]);
    expect((await get(id)).value).to.equal("");
  });

  it("changes nothing when nothing is to change: 200, same version, updated_at stands", async () => {
    const created = await server.secret({ description: "d", tags: ["t", "u"], rotation: { enabled: true } });
    const equal = [
      { description: "d" },
      { tags: ["t", "u", "t"] },
      { rotation: { enabled: true, interval_days: 30 } },
      { rotation: { enabled: true } },
    ];
    const nothing = [{}, undefined, { value: null }, { tags: null }, { rotation: {} }, { rotation: null }];
    const ignored = [
      { key: "other", name: "other", environment: "other", ttl_hours: 1, metadata: { a: 1 }, type: "token" },
      { project_id: "x", version: 9, status: "deleted", created_by: "me", rotation: { last_rotated: "now" } },
      { change_reason: "only a reason" },
      { expected_version: 1 },
    ];
    for (const body of [...nothing, ...equal, ...ignored]) {
      const answer = await put(created.id, body);

      expect(answer.status, JSON.stringify(body)).to.equal(200);
      expect(answer.body, JSON.stringify(body)).to.deep.equal(created);
    }
  });

  it("changes what is mentioned and nothing else", async () => {
    const created = await server.secret({
      description: "old",
      tags: ["old"],
      metadata: { a: 1 },
      rotation: { enabled: true, interval_days: 5 },
    });

    const { body: described } = await put(created.id, { description: "new" });
    const { body: tagged } = await put(created.id, { tags: ["b", "a", "b", 'q"u,o'] });

    const { updated_at: _, ...rest } = created;
    expect(described).to.deep.include({ ...rest, description: "new" });
    expect(tagged).to.deep.include({ ...rest, description: "new", tags: ["b", "a", 'q"u,o'] });
    expect(Date.parse(tagged.updated_at)).to.be.greaterThan(Date.parse(created.updated_at));
    expect((await get(created.id)).tags).to.deep.equal(["b", "a", 'q"u,o']);
  });

  it("clears the description with null and with an empty text, and the tags with an empty list", async () => {
    const { id } = await server.secret({ description: "d", tags: ["t"] });

    const { body: cleared } = await put(id, { description: null, tags: [] });
    await put(id, { description: "again" });
    const { body: emptied } = await put(id, { description: "" });

    expect(cleared).to.deep.include({ description: "", tags: [] });
    expect(emptied.description).to.equal("");
  });

  it("keeps the parts of rotation that are left out, and enables at 30 days without an interval", async () => {
    const { id } = await server.secret();
    const rotate = async (rotation: Record<string, unknown>) => (await put(id, { rotation })).body.rotation;

    const enabled = await rotate({ enabled: true });
    const shorter = await rotate({ interval_days: 7 });
    const disabled = await rotate({ enabled: false });
    const again = await rotate({ enabled: true });

    expect(enabled).to.include({ enabled: true, interval_days: 30 });
    expect(Date.parse(enabled.next_rotation) - Date.now()).to.be.closeTo(30 * dayMs, 60_000);
    expect(shorter).to.include({ enabled: true, interval_days: 7 });
    expect(Date.parse(shorter.next_rotation) - Date.now()).to.be.closeTo(7 * dayMs, 60_000);
    expect(disabled).to.include({ enabled: false, interval_days: 7, next_rotation: null });
    expect(again).to.include({ enabled: true, interval_days: 7 });
    expect((await get(id)).rotation).to.deep.equal(again);
  });

  it("takes camelCase, and the two ends of an interval", async () => {
    const { id } = await server.secret();

    for (const intervalDays of [1, 3650]) {
      const { status, body } = await put(id, { rotation: { intervalDays }, changeReason: "because" });
      expect(status).to.equal(200);
      expect(body.rotation.interval_days).to.equal(intervalDays);
    }
  });

  it("refuses what is outside the limits, naming the field and changing nothing", async () => {
    const created = await server.secret();
    const cases: [string, Record<string, unknown>][] = [
      ["value", { value: "v".repeat(65_537) }],
      ["value", { value: 5 }],
      ["description", { value: "new", description: "d".repeat(1025) }],
      ["tags", { tags: Array.from({ length: 51 }, (_, n) => `t${n}`) }],
      ["tags[0]", { tags: [""] }],
      ["rotation.interval_days", { rotation: { interval_days: 0 } }],
      ["rotation.interval_days", { rotation: { interval_days: 3651 } }],
      ["rotation.interval_days", { rotation: { interval_days: "soon" } }],
      ["rotation.enabled", { rotation: { enabled: 1 } }],
      ["rotation", { rotation: "on" }],
      ["change_reason", { change_reason: "r".repeat(1001) }],
      ["expected_version", { expected_version: 0 }],
    ];
    for (const [field, fields] of cases) {
      const { status, body } = await put(created.id, fields);

      expect(status, field).to.equal(400);
      expect(body.error.details[0].field).to.equal(field);
    }
    expect(await get(created.id)).to.deep.include(created);
  });

  it("keeps the reason in the version and in the audit log", async () => {
    const { id } = await server.secret();

    await put(id, { value: "two", change_reason: "leaked on a screen" });

    const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}/versions`);
    expect(body.data[0]).to.include({ version: 2, change_reason: "leaked on a screen" });
    const [event] = await server.sql(
      "select reason, details from audit_event where resource_id = $1 and action = 'secret.update'",
      [id],
    );
    expect(event.reason).to.equal("leaked on a screen");
    expect(JSON.parse(event.details)).to.deep.equal({ version: 2 });
  });
});

describe("The expected version of an update", () => {
  it("lets it happen when it is the current one, by header and by either field", async () => {
    const { id } = await server.secret();

    expect((await put(id, { value: "2" }, { "if-match": '"1"' })).body.version).to.equal(2);
    expect((await put(id, { value: "3", expected_version: 2 })).body.version).to.equal(3);
    expect((await put(id, { value: "4", cas: 3 })).body.version).to.equal(4);
    expect((await put(id, { value: "5" }, { "if-match": "*" })).body.version).to.equal(5);
  });

  it("is 409 when it is another one, and nothing changes", async () => {
    const created = await server.secret();

    const answers = [
      await put(created.id, { value: "x", description: "x" }, { "if-match": '"2"' }),
      await put(created.id, { value: "x", expected_version: 7 }),
      await put(created.id, { description: "x", cas: 2 }),
    ];

    for (const { status, body } of answers) {
      expect(status).to.equal(409);
      expect(body.error.code).to.equal("RESOURCE_CONFLICT");
    }
    expect(await get(created.id)).to.deep.include({ ...created, value: "v1" });
  });

  it("is 400 when it cannot be a version, or header and body differ", async () => {
    const { id } = await server.secret();

    const malformed = await put(id, { value: "x" }, { "if-match": '"abc"' });
    const differing = await put(id, { value: "x", expected_version: 2 }, { "if-match": '"1"' });

    expect(malformed.status).to.equal(400);
    expect(malformed.body.error.details[0].field).to.equal("header.If-Match");
    expect(differing.status).to.equal(400);
  });
});

describe("An update over gRPC", () => {
  it("changes what the mask names, whatever else is set", async () => {
    const { id } = await server.secret({ description: "old", tags: ["old"] });
    const client = server.admin.grpc(SecretService);

    const change = { id, value: "unmasked", description: "new", rotation: { enabled: true, intervalDays: 3 } };
    const described = await client.updateSecret(
      { ...change, updateMask: { paths: ["description"] } },
      server.admin.metadata(),
    );
    const untagged = await client.updateSecret({ id, updateMask: { paths: ["tags"] } }, server.admin.metadata());
    client.close();

    expect(described).to.include({ description: "new", version: 1 });
    expect(described.rotation?.enabled).to.equal(false);
    expect(untagged.tags).to.deep.equal([]);
    expect((await get(id)).value).to.equal("v1");
  });

  it("changes what is set when there is no mask", async () => {
    const { id } = await server.secret({ description: "old" });
    const client = server.admin.grpc(SecretService);

    const updated = await client.updateSecret(
      { id, value: "two", rotation: { intervalDays: 3 } },
      server.admin.metadata(),
    );
    client.close();

    expect(updated).to.include({ version: 2, description: "old" });
    expect(updated.rotation).to.include({ enabled: false, intervalDays: 3 });
  });
});
