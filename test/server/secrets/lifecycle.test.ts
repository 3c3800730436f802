import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { metadataKeys } from "./record-keys.ts";

const server = useServer();

const call = (verb: string, id: string, action = "", body?: unknown) =>
  server.admin.rest(verb, `/api/v1/secrets/${id}${action}`, body);
const listed = async (status: string) => {
  const path = `/api/v1/secrets?project_id=${server.projectId}&per_page=100&status=${status}`;
  return (await server.admin.rest("GET", path)).body.data.map(({ id }: { id: string }) => id);
};

/** Brings a new secret into a state. */
async function secretIn(state: string, fields: Record<string, unknown> = {}) {
  const secret = await server.secret(fields);
  if (state === "archived") await call("POST", secret.id, "/archive");
  if (state === "deleted") await call("DELETE", secret.id);
  return secret;
}

/** Requests that see only active secrets, and what else goes wrong with them does not matter. */
const normalRequests: [string, string, unknown?][] = [
  ["GET", ""],
  ["GET", "?version=1"],
  ["GET", "?view=metadata"],
  ["PUT", "", { value: "new" }],
  ["DELETE", ""],
  ["GET", "/versions"],
  ["POST", "/rollback", { version: 1 }],
  ["POST", "/copy", { key: "copy" }],
];

describe("A deleted secret", () => {
  it("answers 204 without a body to its deletion, and is recoverable with everything it had", async () => {
    const secret = await server.secret({ value: "one", tags: ["t"], environment: "production" });
    await call("PUT", secret.id, "", { value: "two" });
    const before = (await call("GET", secret.id)).body;

    const { status, body } = await call("DELETE", secret.id);
    await call("POST", secret.id, "/restore");

    expect(status).to.equal(204);
    expect(body).to.equal("");
    const { updated_at: _, ...rest } = before;
    expect((await call("GET", secret.id)).body).to.deep.include(rest);
    expect((await call("GET", secret.id, "/versions")).body.data).to.have.length(2);
  });

  it("answers 404 to everything but restore and permanent delete", async () => {
    const { id } = await secretIn("deleted");

    for (const [verb, action, body] of [...normalRequests, ["POST", "/archive"] as const]) {
      const answer = await call(verb, id, action, body);
      expect(answer.status, `${verb} ${action}`).to.equal(404);
      expect(answer.body.error.code).to.equal("RESOURCE_NOT_FOUND");
    }
    expect(await listed("active")).not.to.include(id);
    expect(await listed("deleted")).to.include(id);
  });
});

describe("An archived secret", () => {
  it("is answered with its metadata and archived_at", async () => {
    const secret = await server.secret();

    const { status, body } = await call("POST", secret.id, "/archive");

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(metadataKeys);
    expect(body).to.include({ status: "archived", deleted_at: null });
    expect(Math.abs(Date.parse(body.archived_at) - Date.now())).to.be.lessThan(60_000);
    expect(body.updated_at).to.equal(body.archived_at);
  });

  it("is not reachable through normal queries", async () => {
    const { id } = await secretIn("archived");

    for (const [verb, action, body] of normalRequests) {
      const answer = await call(verb, id, action, body);
      expect(answer.status, `${verb} ${action}`).to.equal(404);
    }
    expect(await listed("active")).not.to.include(id);
    expect(await listed("archived")).to.include(id);
  });

  it("cannot be archived again: 409", async () => {
    const { id } = await secretIn("archived");

    const { status, body } = await call("POST", id, "/archive");

    expect(status).to.equal(409);
    expect(body.error).to.include({ code: "RESOURCE_CONFLICT", message: "secret is already archived" });
  });
});

describe("RestoreSecret", () => {
  for (const state of ["archived", "deleted"]) {
    it(`makes an ${state} secret active: 200, and both timestamps are null`, async () => {
      const { id } = await secretIn(state, { value: "kept" });

      const { status, body } = await call("POST", id, "/restore");

      expect(status).to.equal(200);
      expect(body).to.have.all.keys(metadataKeys);
      expect(body).to.include({ status: "active", archived_at: null, deleted_at: null });
      expect((await call("GET", id)).body.value).to.equal("kept");
    });
  }

  it("is 409 for an active secret and 404 for one that is not there", async () => {
    const { id } = await server.secret();

    const { status, body } = await call("POST", id, "/restore");

    expect(status).to.equal(409);
    expect(body.error.message).to.equal("secret is already active");
    expect((await call("POST", "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55", "/restore")).status).to.equal(404);
  });

  it("gives a new life when asked to, within the limits", async () => {
    const { id } = await secretIn("deleted");

    for (const ttl_hours of [0, 8761, "soon"]) {
      const { status, body } = await call("POST", id, "/restore", { ttl_hours });
      expect(status).to.equal(400);
      expect(body.error.details[0].field).to.equal("ttl_hours");
    }
    const { body } = await call("POST", id, "/restore", { ttl_hours: 24 });
    expect(Date.parse(body.expires_at) - Date.parse(body.updated_at)).to.equal(24 * 3_600_000);
  });

  it("moves an overdue rotation to now plus its interval, and leaves one that is still to come", async () => {
    const overdue = await secretIn("archived", { rotation: { enabled: true, interval_days: 10 } });
    const coming = await secretIn("deleted", { rotation: { enabled: true, interval_days: 10 } });
    await server.sql("update secret set next_rotation = now() - interval '1 day' where id = $1", [overdue.id]);

    const { body: moved } = await call("POST", overdue.id, "/restore");
    const { body: left } = await call("POST", coming.id, "/restore");

    expect(Date.parse(moved.rotation.next_rotation) - Date.parse(moved.updated_at)).to.equal(10 * 86_400_000);
    expect(left.rotation).to.deep.equal(coming.rotation);
  });
});

describe("DeleteSecretPermanently", () => {
  for (const state of ["active", "archived", "deleted"]) {
    it(`removes an ${state} secret with its versions and its key: 204, then 404`, async () => {
      const { id } = await secretIn(state);

      const first = await call("DELETE", id, "/permanent");
      const second = await call("DELETE", id, "/permanent");

      expect(first.status).to.equal(204);
      expect(first.body).to.equal("");
      expect(second.status).to.equal(404);
      expect((await call("POST", id, "/restore")).status).to.equal(404);
      const [left] = await server.sql(
        `select (select count(*)::int from secret where id = $1) as secrets,
           (select count(*)::int from secret_version where secret_id = $1) as versions,
           (select count(*)::int from data_key where record_id = $1) as keys`,
        [id],
      );
      expect(left).to.deep.equal({ secrets: 0, versions: 0, keys: 0 });
    });
  }

  it("leaves the audit trail, with the name of the key", async () => {
    const { id, key } = await secretIn("deleted");

    await call("DELETE", id, "/permanent");

    const rows = await server.sql("select action, resource_name from audit_event where resource_id = $1 order by id", [
      id,
    ]);
    expect(rows.slice(0, 3)).to.deep.equal(
      ["secret.create", "secret.delete", "secret.permanent_delete"].map((action) => ({ action, resource_name: key })),
    );
  });
});
