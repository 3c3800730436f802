import { expect } from "chai";
import { expiryJob } from "../../../src/server/keytabs/expiry.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const past = "2020-01-01T00:00:00.000Z";
const future = "2040-01-01T00:00:00.000Z";
const at = (id: string) => `/api/v1/keytabs/${id}`;
const put = (id: string, body: unknown) => server.admin.rest("PUT", at(id), body);
const read = async (id: string) => (await server.admin.rest("GET", at(id))).body;
const statusOf = async (id: string) => (await read(id)).status as string;
const sweep = () => expiryJob(server.server.core).run({});
const born = async (expires_at: string) => (await importKeytab(server.admin, newKeytab(), { expires_at })).id as string;
const storedStatus = async (id: string) =>
  (await server.sql("select status from keytab where id = $1", [id.slice(3)]))[0].status as string;
const expiries = (id: string) =>
  server.sql("select * from audit_event where resource_id = $1 and action = 'keytab.expire'", [id]);
const listed = async (status: string) => {
  const { body } = await server.admin.rest("GET", `/api/v1/keytabs?status=${status}&limit=100`);
  return body.data.map(({ id }: { id: string }) => id) as string[];
};

/** A keytab whose time was over a second ago, and that nobody has swept. */
async function expired(fields: Record<string, unknown> = {}): Promise<string> {
  const { id } = await importKeytab(server.admin, newKeytab(), { expires_at: future, ...fields });
  await server.sql("update keytab set expires_at = now() - interval '1 second' where id = $1", [id.slice(3)]);
  return id;
}

describe("A keytab with an end", () => {
  it("is active until then, and expired from that instant on, before any sweep", async () => {
    const [living, over] = [await born(future), await expired()];

    expect(await statusOf(living)).to.equal("active");
    expect(await statusOf(over)).to.equal("expired");
    expect(await storedStatus(over)).to.equal("active");
    expect(await listed("active"))
      .to.include(living)
      .and.not.to.include(over);
    expect(await listed("expired"))
      .to.include(over)
      .and.not.to.include(living);
  });

  it("may be born expired", async () => {
    const { status, expires_at } = await importKeytab(server.admin, newKeytab(), { expires_at: past });

    expect({ status, expires_at }).to.deep.equal({ status: "expired", expires_at: past });
  });

  it("stays disabled when its end passes", async () => {
    const id = await born(future);
    await put(id, { status: "disabled" });
    await server.sql("update keytab set expires_at = now() where id = $1", [id.slice(3)]);

    await sweep();

    expect(await statusOf(id)).to.equal("disabled");
    expect(await expiries(id)).to.deep.equal([]);
  });

  it("is still read, downloaded and changed in everything but its status", async () => {
    const id = await expired();

    const { status, body } = await put(id, { name: "renamed", notes: "n" });

    expect(status).to.equal(200);
    expect(body).to.include({ name: "renamed", notes: "n", status: "expired" });
    expect((await server.admin.rest("GET", `${at(id)}/download`)).status).to.equal(200);
  });
});

for (const swept of [false, true]) {
  describe(`An expired keytab, ${swept ? "after the sweep" : "before the sweep"}`, () => {
    async function expiredKeytab(): Promise<string> {
      const id = await expired();
      if (swept) await sweep();
      return id;
    }

    it("is active again when its end moves to the future or away", async () => {
      for (const expires_at of [future, null]) {
        const id = await expiredKeytab();

        const { status, body } = await put(id, { expires_at });

        expect(status).to.equal(200);
        expect(body).to.include({ status: "active", expires_at });
        await sweep();
        expect(await statusOf(id)).to.equal("active");
        expect(await expiries(id)).to.have.length(1);
      }
    });

    it("takes a status together with a new end", async () => {
      for (const status of ["active", "disabled"]) {
        const { body } = await put(await expiredKeytab(), { status, expires_at: future });

        expect(body).to.include({ status, expires_at: future });
      }
    });

    it("is 409 for a status without one, or with one that is past, and stays as it is", async () => {
      const id = await expiredKeytab();
      const before = await read(id);
      for (const fields of [{ status: "active" }, { status: "disabled" }, { status: "active", expires_at: past }]) {
        const { status, body } = await put(id, { ...fields, name: "renamed" });

        expect(status, JSON.stringify(fields)).to.equal(409);
        expect(body.error.code).to.equal("RESOURCE_CONFLICT");
        expect(await read(id)).to.deep.equal(before);
      }
    });

    it("stays expired when its file is replaced, or its end moves within the past", async () => {
      const id = await expiredKeytab();

      const replaced = await put(id, { keytab_data: newKeytab().toString("base64") });
      const moved = await put(id, { expires_at: past });

      expect(replaced.body).to.include({ status: "expired", version: 2 });
      expect(moved.body).to.include({ status: "expired", expires_at: past });
    });

    it("is active with a new file when its end moves away in the same call", async () => {
      const id = await expiredKeytab();

      const { body } = await put(id, { keytab_data: newKeytab().toString("base64"), expires_at: null });

      expect(body).to.include({ status: "active", version: 2 });
    });

    it("can be deleted, and its end is on the record exactly once", async () => {
      const id = await expiredKeytab();

      const { status } = await server.admin.rest("DELETE", at(id));
      await sweep();

      expect(status).to.equal(204);
      expect(await expiries(id)).to.have.length(1);
    });
  });
}

describe("A disabled keytab whose end is past", () => {
  it("is 409 for active, and active together with a new end", async () => {
    const id = await born(future);
    await put(id, { status: "disabled", expires_at: past });

    const refused = await put(id, { status: "active" });
    const stillRefused = await put(id, { status: "active", expires_at: past });
    const moved = await put(id, { expires_at: future });
    const active = await put(id, { status: "active" });

    expect([refused.status, stillRefused.status]).to.deep.equal([409, 409]);
    expect(moved.body).to.include({ status: "disabled", expires_at: future });
    expect(active.body).to.include({ status: "active" });
  });

  it("can be disabled again, which changes nothing", async () => {
    const id = await born(future);
    const { body: disabled } = await put(id, { status: "disabled", expires_at: past });

    const { status, body } = await put(id, { status: "disabled" });

    expect(status).to.equal(200);
    expect(body).to.deep.equal(disabled);
  });
});

describe("An active keytab", () => {
  it("is expired by an end that moves to the past, but not told to be active with it", async () => {
    const id = await born(future);

    const refused = await put(id, { status: "active", expires_at: past });
    const { body } = await put(id, { expires_at: past });

    expect(refused.status).to.equal(409);
    expect(body).to.include({ status: "expired", expires_at: past });
  });
});

describe("The sweep of keytabs", () => {
  it("writes the status, and one audit event by system, and moves nothing else", async () => {
    const id = await expired({ project_id: server.projectId });
    const before = await read(id);

    await sweep();

    expect(await storedStatus(id)).to.equal("expired");
    expect(await read(id)).to.deep.equal(before);
    const [event, ...more] = await expiries(id);
    expect(more).to.deep.equal([]);
    expect(event).to.include({ actor_type: "system", actor_id: null, outcome: "success", resource_name: "web server" });
    expect(event).to.include({ resource_type: "keytab", project_id: server.projectId });
    expect(JSON.parse(event.details)).to.deep.equal({ expired_at: before.expires_at });
  });

  it("does nothing twice, on one replica or on several at once", async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, () => expired()));

    await Promise.all([sweep(), sweep(), sweep()]);
    await sweep();

    for (const id of ids) expect(await expiries(id)).to.have.length(1);
  });

  it("takes more keytabs than fit in one batch", async () => {
    await server.sql(
      `insert into keytab (organization_id, name, principal, realm, kvno, encryption_types, cipher_compliance, source,
         entry_count, keytab_hash, expires_at)
       select id, 'many', 'a@R', 'R', 1, '{}', 'compliant', 'import', 1, n::text, now()
       from organization, generate_series(1, 2100) n`,
    );

    await sweep();

    const [left] = await server.sql("select count(*)::int as n from keytab where name = 'many' and status = 'active'");
    const [events] = await server.sql(
      "select count(*)::int as n from audit_event where action = 'keytab.expire' and resource_name = 'many'",
    );
    expect(left.n).to.equal(0);
    expect(events.n).to.equal(2100);
  });

  it("leaves alone what still lives, what has no end, and what was deleted", async () => {
    const [living, endless, deleted] = [await born(future), (await importKeytab(server.admin)).id, await born(future)];
    await server.admin.rest("DELETE", at(deleted));
    await server.sql("update keytab set expires_at = now() where id = $1", [deleted.slice(3)]);

    await sweep();

    expect(await storedStatus(living)).to.equal("active");
    expect(await storedStatus(endless)).to.equal("active");
    expect(await expiries(deleted)).to.deep.equal([]);
  });
});
