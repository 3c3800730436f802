import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { metadataKeys, rotationKeys } from "./record-keys.ts";
import { statementsOf } from "./statements.ts";

const server = useServer();

const get = (id: string, query = "", headers: Record<string, string> = {}) =>
  server.admin.rest("GET", `/api/v1/secrets/${id}${query}`, undefined, headers);
const put = (id: string, body: Record<string, unknown>) => server.admin.rest("PUT", `/api/v1/secrets/${id}`, body);

/** What was recorded about a secret by reads, oldest first. */
const readsOf = (id: string) =>
  server.sql(
    "select action, outcome, details from audit_event where resource_id = $1 and action in ('secret.read_value', 'secret.check') order by id",
    [id],
  );

describe("GetSecret", () => {
  it("answers exactly the metadata and the value", async () => {
    const created = await server.secret({ value: "hunter2" });

    const { status, body } = await get(created.id);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(...metadataKeys, "value");
    expect(body.rotation).to.have.all.keys(rotationKeys);
    expect(body).to.deep.equal({ ...created, value: "hunter2" });
  });

  it("answers the newest value after every change", async () => {
    const { id } = await server.secret({ value: "one" });
    await put(id, { value: "two" });

    const { body } = await get(id);

    expect(body).to.include({ value: "two", version: 2 });
  });

  it("records each read of a value with its version", async () => {
    const { id, key } = await server.secret();

    await get(id);

    const [event] = await server.sql(
      "select * from audit_event where resource_id = $1 and action = 'secret.read_value'",
      [id],
    );
    expect(event).to.include({ outcome: "success", resource_name: key, actor_id: server.admin.id });
    expect(JSON.parse(event.details)).to.deep.equal({ version: 1 });
  });

  it("answers the value of an earlier version, numbered so, when asked for it", async () => {
    const { id } = await server.secret({ value: "one" });
    await put(id, { value: "two" });

    const { status, headers, body } = await get(id, "?version=1");

    expect(status).to.equal(200);
    expect(body).to.include({ value: "one", version: 1 });
    expect(headers.get("etag")).to.equal('"1"');
    expect((await readsOf(id)).map(({ details }) => JSON.parse(details))).to.deep.equal([{ version: 1 }]);
  });

  it("answers 404 for a version that is not there and 400 for one that cannot be", async () => {
    const { id } = await server.secret();

    expect((await get(id, "?version=2")).status).to.equal(404);
    for (const version of ["0", "-1", "x", "1.5"]) {
      const { status, body } = await get(id, `?version=${version}`);
      expect(status, version).to.equal(400);
      expect(body.error.details[0].field).to.equal("version");
    }
  });

  it("leaves the value out of view=metadata and records no read of it", async () => {
    const created = await server.secret({ value: "hunter2" });

    const { status, body } = await get(created.id, "?view=metadata");

    expect(status).to.equal(200);
    expect(body).to.deep.equal(created);
    expect(await readsOf(created.id)).to.deep.equal([]);
  });

  it("answers the full record to view=full and 400 to any other view", async () => {
    const { id } = await server.secret();

    expect((await get(id, "?view=full")).body).to.have.property("value");
    const { status, body } = await get(id, "?view=everything");
    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("view");
  });

  it("answers 404 to an unknown, a malformed and an empty id", async () => {
    for (const id of ["0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55", "DB_PASSWORD", "0193b1d2", "%00", "kt_x"]) {
      const { status, body } = await get(id);
      expect(status, id).to.equal(404);
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
    }
  });

  it("finds a secret by its id in capitals too, and records the id as it is", async () => {
    const { id } = await server.secret({ value: "hunter2" });

    const { status, body } = await get(id.toUpperCase());

    expect(status).to.equal(200);
    expect(body).to.include({ id, value: "hunter2" });
    expect(await readsOf(id)).to.have.length(1);
  });

  it("takes one statement for the secret, its version and its key", async () => {
    const { id } = await server.secret();
    await get(id);

    const statements = await statementsOf(server, () => get(id));

    expect(statements.filter((text) => !text.includes("insert into audit_event"))).to.have.length(1);
  });
});

describe("The ETag of a secret", () => {
  it("is its version", async () => {
    const { id } = await server.secret();
    await put(id, { value: "two" });

    expect((await get(id)).headers.get("etag")).to.equal('"2"');
    expect((await get(id, "?view=metadata")).headers.get("etag")).to.equal('"2"');
  });

  it("in If-None-Match answers 304 without a body, recorded as a check", async () => {
    const { id } = await server.secret();

    for (const tag of ['"1"', 'W/"1"', '"7", "1"', "*"]) {
      const { status, headers, body } = await get(id, "", { "if-none-match": tag });
      expect(status, tag).to.equal(304);
      expect(headers.get("etag")).to.equal('"1"');
      expect(body).to.equal("");
    }
    expect((await readsOf(id)).map(({ action }) => action)).to.deep.equal(Array(4).fill("secret.check"));
  });

  it("in If-None-Match decrypts nothing", async () => {
    const { id } = await server.secret();
    await server.sql("update secret_version set sealed = '\\x00' where secret_id = $1", [id]);

    const { status } = await get(id, "", { "if-none-match": '"1"' });

    expect(status).to.equal(304);
    expect((await get(id)).status).to.equal(500);
  });

  it("of an older version answers the new value", async () => {
    const { id } = await server.secret({ value: "one" });
    await put(id, { value: "two" });

    const { status, body } = await get(id, "", { "if-none-match": '"1"' });

    expect(status).to.equal(200);
    expect(body.value).to.equal("two");
  });
});
