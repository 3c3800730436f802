import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { metadataKeys } from "./record-keys.ts";

const server = useServer();

const put = (id: string, body: Record<string, unknown>) => server.admin.rest("PUT", `/api/v1/secrets/${id}`, body);
const versions = (id: string) => server.admin.rest("GET", `/api/v1/secrets/${id}/versions`);
const rollback = (id: string, body: unknown, headers: Record<string, string> = {}) =>
  server.admin.rest("POST", `/api/v1/secrets/${id}/rollback`, body, headers);
const get = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;

/** A secret with the values v1, v2 and v3. */
async function threeVersions() {
  const secret = await server.secret();
  await put(secret.id, { value: "v2", change_reason: "second" });
  await put(secret.id, { value: "v3" });
  return secret;
}

describe("ListSecretVersions", () => {
  it("answers {data} with all versions, newest first, without values", async () => {
    const { id } = await threeVersions();

    const { status, body } = await versions(id);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("data");
    expect(body.data.map(({ version }: { version: number }) => version)).to.deep.equal([3, 2, 1]);
    const keys = "version created_at created_by change_type change_reason source_version grace_ends_at".split(" ");
    for (const each of body.data) expect(each).to.have.all.keys(keys);
  });

  it("says until when a value that was rotated away is to be of use, and nothing of the sort of others", async () => {
    const { id } = await threeVersions();
    await server.admin.rest("PUT", `/api/v1/secrets/${id}/rotation-config`, { grace_period_days: 7 });
    const { body: rotated } = await server.admin.rest("POST", `/api/v1/secrets/${id}/rotate`, {});
    await put(id, { value: "v5" });

    const { body } = await versions(id);

    const graces = body.data.map((each: { grace_ends_at: string | null }) => each.grace_ends_at);
    const end = new Date(Date.parse(rotated.rotated_at) + 7 * 86_400_000).toISOString();
    expect(graces).to.deep.equal([null, null, end, null, null]);
    expect((await server.admin.rest("GET", `/api/v1/secrets/${id}?version=3`)).body.value).to.equal("v3");
  });

  it("says who made each version, how, why and when", async () => {
    const { id, created_at } = await threeVersions();
    await rollback(id, { version: 2, change_reason: "bad deploy" });

    const { body } = await versions(id);

    const created_by = server.admin.id;
    const expected = [
      { version: 4, created_by, change_type: "rollback", change_reason: "bad deploy", source_version: 2 },
      { version: 3, created_by, change_type: "manual_update", change_reason: "", source_version: null },
      { version: 2, created_by, change_type: "manual_update", change_reason: "second", source_version: null },
      { version: 1, created_by, change_type: "initial", change_reason: "", source_version: null },
    ];
    expect(body.data).to.have.length(4);
    for (const [index, version] of expected.entries()) expect(body.data[index]).to.include(version);
    expect(body.data[3].created_at).to.equal(created_at);
  });

  it("gains none from an update that leaves the value alone", async () => {
    const { id } = await server.secret();
    await put(id, { description: "d", tags: ["t"], rotation: { enabled: true } });

    expect((await versions(id)).body.data).to.have.length(1);
  });
});

describe("RollbackSecret", () => {
  it("answers 200 with the metadata of a new version that has the value of the old one", async () => {
    const { id } = await threeVersions();

    const { status, body } = await rollback(id, { version: 1 });

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(...metadataKeys, "rolled_back_to");
    expect(body).to.include({ version: 4, rolled_back_to: 1 });
    expect(await get(id)).to.include({ version: 4, value: "v1" });
  });

  it("leaves every earlier version readable as it was", async () => {
    const { id } = await threeVersions();
    await rollback(id, { version: 1 });

    for (const [version, value] of Object.entries({ 1: "v1", 2: "v2", 3: "v3", 4: "v1" })) {
      const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}?version=${version}`);
      expect(body.value).to.equal(value);
    }
  });

  it("takes the current version too, and a version that was itself a rollback", async () => {
    const { id } = await threeVersions();

    expect((await rollback(id, { version: 3 })).body).to.include({ version: 4, rolled_back_to: 3 });
    expect((await rollback(id, { version: 4 })).body).to.include({ version: 5, rolled_back_to: 4 });
    expect((await get(id)).value).to.equal("v3");
  });

  it("takes each alias of version", async () => {
    const { id } = await threeVersions();

    for (const alias of ["target_version", "to_version", "rollback_to", "targetVersion", "rollbackTo"]) {
      const { status, body } = await rollback(id, { [alias]: 1 });
      expect(status, alias).to.equal(200);
      expect(body.rolled_back_to).to.equal(1);
    }
  });

  it("is 404 for a version that is not there, and 400 without one or with what cannot be one", async () => {
    const { id } = await threeVersions();

    const unknown = await rollback(id, { version: 4 });
    expect(unknown.status).to.equal(404);
    expect(unknown.body.error.code).to.equal("RESOURCE_NOT_FOUND");
    for (const body of [undefined, {}, { version: null }, { version: 0 }, { version: "latest" }, { version: 1.5 }]) {
      const { status, body: answer } = await rollback(id, body);
      expect(status, JSON.stringify(body)).to.equal(400);
      expect(answer.error.details[0].field).to.equal("version");
    }
    expect((await get(id)).version).to.equal(3);
  });

  it("is 409 when another version is the current one, and changes nothing", async () => {
    const { id } = await threeVersions();

    expect((await rollback(id, { version: 1 }, { "if-match": '"2"' })).status).to.equal(409);
    expect((await rollback(id, { version: 1, expected_version: 2 })).status).to.equal(409);
    expect((await get(id)).version).to.equal(3);
    expect((await rollback(id, { version: 1 }, { "if-match": '"3"' })).status).to.equal(200);
  });

  it("is recorded with its reason and the new version", async () => {
    const { id } = await threeVersions();

    await rollback(id, { version: 1, change_reason: "bad deploy" });

    const [event] = await server.sql(
      "select * from audit_event where resource_id = $1 and action = 'secret.rollback'",
      [id],
    );
    expect(event).to.include({ outcome: "success", reason: "bad deploy" });
    expect(JSON.parse(event.details)).to.deep.equal({ version: 4 });
  });
});
