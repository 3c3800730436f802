import { expect } from "chai";
import { expiryJob } from "../../../src/server/secrets/expiry.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

const call = (verb: string, id: string, action = "", body?: unknown) =>
  server.admin.rest(verb, `/api/v1/secrets/${id}${action}`, body);

const sweep = () => expiryJob(server.server.core).run({});

/** A secret whose life has ended a second ago, unless told otherwise, and that nobody has swept. */
async function expiredSecret(fields: Record<string, unknown> = {}, ago = "1 second") {
  const secret = await server.secret({ ttl_hours: 1, ...fields });
  await server.sql("update secret set expires_at = now() - $2::interval where id = $1", [secret.id, ago]);
  return secret;
}

const listed = async (query: string) => {
  const path = `/api/v1/secrets?project_id=${server.projectId}&per_page=100&${query}`;
  const { body } = await server.admin.rest("GET", path);
  return body.data as { id: string; status: string }[];
};

const row = async (id: string) => (await server.sql("select * from secret where id = $1", [id]))[0];
const expiries = (id: string) =>
  server.sql("select * from audit_event where resource_id = $1 and action = 'secret.expire'", [id]);

describe("A secret whose ttl_hours elapsed", () => {
  it("lives until then", async () => {
    const secret = await expiredSecret({}, "-1 minute");

    expect((await call("GET", secret.id)).status).to.equal(200);
  });

  it("is from that instant on as good as deleted, before any sweep", async () => {
    const { id } = await expiredSecret();

    const requests: [string, string, unknown?][] = [
      ["GET", ""],
      ["GET", "?view=metadata"],
      ["GET", "?version=1"],
      ["PUT", "", { value: "new" }],
      ["DELETE", ""],
      ["GET", "/versions"],
      ["POST", "/rollback", { version: 1 }],
      ["POST", "/copy", { key: "copy" }],
      ["POST", "/archive"],
    ];
    for (const [verb, action, body] of requests) {
      expect((await call(verb, id, action, body)).status, `${verb} ${action}`).to.equal(404);
    }
    expect((await listed("")).map((each) => each.id)).not.to.include(id);
    expect((await listed("status=deleted")).find((each) => each.id === id)?.status).to.equal("deleted");
    expect((await row(id)).status).to.equal("active");
  });

  it("is so too when it was archived", async () => {
    const secret = await server.secret({ ttl_hours: 1 });
    await call("POST", secret.id, "/archive");
    await server.sql("update secret set expires_at = now() where id = $1", [secret.id]);

    expect((await listed("status=archived")).map(({ id }) => id)).not.to.include(secret.id);
    expect((await listed("status=deleted")).map(({ id }) => id)).to.include(secret.id);
    expect((await call("POST", secret.id, "/archive")).status).to.equal(404);
  });

  it("frees its key before the sweep, and that ends it on the books exactly once", async () => {
    const { id, key } = await expiredSecret();

    const { id: successor } = await server.secret({ key });
    await sweep();

    expect(successor).not.to.equal(id);
    expect((await row(id)).status).to.equal("deleted");
    expect(await expiries(id)).to.have.length(1);
  });

  it("does not live longer because it was changed", async () => {
    const secret = await server.secret({ ttl_hours: 1 });

    const { body } = await call("PUT", secret.id, "", { value: "two", rotation: { enabled: true } });

    expect(body.expires_at).to.equal(secret.expires_at);
  });

  it("is not counted among the active secrets", async () => {
    const count = async () =>
      (await server.admin.rest("GET", "/api/v1/health/system")).body.statistics.total_secrets as number;
    const before = await count();

    await expiredSecret();

    expect(await count()).to.equal(before);
  });

  it("can be removed for good before the sweep, and its end is recorded all the same", async () => {
    const { id } = await expiredSecret();

    const { status } = await call("DELETE", id, "/permanent");

    expect(status).to.equal(204);
    expect(await row(id)).to.equal(undefined);
    expect(await expiries(id)).to.have.length(1);
  });
});

describe("The sweep", () => {
  it("writes deleted_at = expires_at, and one audit entry by system", async () => {
    const { id, key } = await expiredSecret();

    await sweep();

    const { status, deleted_at, expires_at } = await row(id);
    expect(status).to.equal("deleted");
    expect(deleted_at).to.deep.equal(expires_at);
    const events = await expiries(id);
    expect(events).to.have.length(1);
    expect(events[0]).to.include({ actor_type: "system", actor_id: null, outcome: "success", resource_name: key });
  });

  it("does nothing twice, on one replica or on several at once", async () => {
    const secrets = await Promise.all(Array.from({ length: 10 }, () => expiredSecret()));

    await Promise.all([sweep(), sweep(), sweep()]);
    await sweep();

    for (const { id } of secrets) expect(await expiries(id)).to.have.length(1);
  });

  it("takes more secrets than fit in one batch", async () => {
    const { id } = await expiredSecret();
    await server.sql(
      `insert into secret (organization_id, project_id, key, created_by, expires_at)
       select organization_id, project_id, 'many-' || n, created_by, expires_at
       from secret, generate_series(1, 2100) n where id = $1`,
      [id],
    );

    await sweep();

    const [left] = await server.sql(
      "select count(*)::int as n from secret where key like 'many-%' and status = 'active'",
    );
    const [events] = await server.sql(
      "select count(*)::int as n from audit_event where action = 'secret.expire' and resource_name like 'many-%'",
    );
    expect(left.n).to.equal(0);
    expect(events.n).to.equal(2100);
  });

  it("leaves alone what still lives, what has no end, and what was deleted by hand", async () => {
    const [living, endless, deleted] = [
      await server.secret({ ttl_hours: 1 }),
      await server.secret(),
      await expiredSecret(),
    ];
    await server.sql("update secret set status = 'deleted', deleted_at = now() where id = $1", [deleted.id]);

    await sweep();

    expect((await row(living.id)).status).to.equal("active");
    expect((await row(endless.id)).status).to.equal("active");
    expect(await expiries(deleted.id)).to.deep.equal([]);
  });
});

describe("Restore of an expired secret", () => {
  for (const swept of [false, true]) {
    const when = swept ? "after the sweep" : "before the sweep";

    it(`${when} makes it live without an end`, async () => {
      const { id } = await expiredSecret({ value: "kept" });
      if (swept) await sweep();

      const { status, body } = await call("POST", id, "/restore");

      expect(status).to.equal(200);
      expect(body).to.include({ status: "active", expires_at: null, deleted_at: null });
      expect((await call("GET", id)).body.value).to.equal("kept");
      await sweep();
      expect((await row(id)).status).to.equal("active");
      expect(await expiries(id)).to.have.length(1);
    });

    it(`${when} sets its end anew from ttl_hours`, async () => {
      const { id } = await expiredSecret();
      if (swept) await sweep();

      const { body } = await call("POST", id, "/restore", { ttl_hours: 24 });

      expect(body.status).to.equal("active");
      expect(Date.parse(body.expires_at) - Date.parse(body.updated_at)).to.equal(24 * 3_600_000);
      expect((await call("GET", id)).status).to.equal(200);
    });

    it(`${when} is 409 when the key has been taken`, async () => {
      const { id, key } = await expiredSecret();
      if (swept) await sweep();
      await server.secret({ key });

      expect((await call("POST", id, "/restore")).status).to.equal(409);
    });
  }

  it("takes a key back from a secret that has expired in turn", async () => {
    const first = await server.secret();
    await call("DELETE", first.id);
    const second = await expiredSecret({ key: first.key });

    const { status } = await call("POST", first.id, "/restore");

    expect(status).to.equal(200);
    expect((await row(second.id)).status).to.equal("deleted");
    expect(await expiries(second.id)).to.have.length(1);
  });
});
