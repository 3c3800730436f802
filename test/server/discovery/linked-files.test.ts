import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { discovered, hashOf, recordOf } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/etc/krb5.keytab";
let host: Host;
const files = new Map<string, Buffer>();

beforeEach(async () => {
  files.clear();
  host = await Host.enroll(server);
});
afterEach(() => host.close());

const record = () => recordOf(server.admin, host);
const report = (bytes: Buffer, of = host) => of.report([foundKeytab(path, bytes)]);
const post = (id: string, action: string, body: unknown = {}, headers = {}) =>
  server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/${action}`, body, headers);
const keytab = (id: string) => server.admin.rest("GET", `/api/v1/keytabs/${id}`);

/** A file under management that has changed on its host since. */
async function driftedFile(changed = newKeytab({ kvno: 2 })) {
  const bytes = newKeytab({ kvno: 1 });
  await report(bytes);
  const managed = await importKeytab(server.admin, bytes);
  await report(changed);
  files.set(path, changed);
  const { id } = await record();
  return { id, bytes, changed, managed };
}

describe("A file whose bytes are managed", () => {
  it("is imported from its first report on, on any host", async () => {
    const bytes = newKeytab();
    const { id } = await importKeytab(server.admin, bytes);

    const answer = await report(bytes);

    expect(answer).to.include({ discovered: 1, changed: 0 });
    expect(await record()).to.include({ state: "imported", is_managed: true, managed_keytab_id: id, drifted: false });
  });

  it("is imported when the bytes come under management later, on all hosts, and ignored no more", async () => {
    const beside = await Host.enroll(server);
    const bytes = newKeytab();
    for (const each of [host, beside]) await report(bytes, each);
    await post((await record()).id, "ignore");

    const { id } = await importKeytab(server.admin, bytes);

    for (const each of [host, beside]) {
      expect(await recordOf(server.admin, each)).to.include({
        state: "imported",
        managed_keytab_id: id,
        ignored_reason: null,
      });
    }
    beside.close();
  });

  it("is imported when it becomes those bytes, and no longer ignored", async () => {
    const bytes = newKeytab();
    const { id } = await importKeytab(server.admin, bytes);
    await report(newKeytab());
    await post((await record()).id, "ignore");

    await report(bytes);

    expect(await record()).to.include({ state: "imported", managed_keytab_id: id, ignored_reason: null });
    const [{ details }] = await server.sql(
      "select details::jsonb from audit_event where action = 'agent.report' and actor_id = $1 order by occurred_at desc, id desc limit 1",
      [host.id],
    );
    expect(details).to.include({ changed: 1, linked: 1 });
  });

  it("is discovered again when the keytab is deleted, and imported by the next keytab with its bytes", async () => {
    const bytes = newKeytab();
    await report(bytes);
    const first = await importKeytab(server.admin, bytes);

    await server.admin.rest("DELETE", `/api/v1/keytabs/${first.id}`);
    const between = await record();
    const second = await importKeytab(server.admin, bytes);

    expect(between).to.include({ state: "discovered", is_managed: false, managed_keytab_id: null, drifted: false });
    expect(await record()).to.include({ state: "imported", is_managed: true, managed_keytab_id: second.id });
  });

  it("stays managed when it is stale, and is imported when it is back", async () => {
    const bytes = newKeytab();
    await report(bytes);
    const { id } = await importKeytab(server.admin, bytes);

    await host.report([]);
    const gone = await record();
    await report(bytes);

    expect(gone).to.include({ state: "stale", is_managed: true, managed_keytab_id: id });
    expect(await record()).to.include({ state: "imported", is_managed: true, managed_keytab_id: id });
  });

  it("is not managed by a keytab of another organization", async () => {
    const { admin } = await server.otherOrganization();
    const bytes = newKeytab();
    await importKeytab(admin, bytes);

    await report(bytes);

    expect(await record()).to.include({ state: "discovered", is_managed: false });
  });
});

describe("A managed file that changes on its host", () => {
  it("has drifted, and stays with its keytab", async () => {
    const { managed, changed } = await driftedFile();

    expect(await record()).to.include({
      state: "imported",
      drifted: true,
      managed_keytab_id: managed.id,
      keytab_hash: hashOf(changed),
    });
  });

  it("has not when it changes back", async () => {
    const { bytes } = await driftedFile();

    await report(bytes);

    expect(await record()).to.include({ state: "imported", drifted: false });
  });

  it("has not when the keytab is given the same bytes", async () => {
    const { changed, managed } = await driftedFile();

    await server.admin.rest("PUT", `/api/v1/keytabs/${managed.id}`, { keytab_data: changed.toString("base64") });

    expect(await record()).to.include({ state: "imported", drifted: false, managed_keytab_id: managed.id });
  });

  it("has when the keytab is given others", async () => {
    const bytes = newKeytab();
    await report(bytes);
    const { id } = await importKeytab(server.admin, bytes);

    await server.admin.rest("PUT", `/api/v1/keytabs/${id}`, { keytab_data: newKeytab().toString("base64") });

    expect(await record()).to.include({ state: "imported", drifted: true });
  });

  it("goes to the keytab that has its bytes by now", async () => {
    const changed = newKeytab();
    const other = await importKeytab(server.admin, changed);

    await driftedFile(changed);

    expect(await record()).to.include({ state: "imported", drifted: false, managed_keytab_id: other.id });
  });
});

describe("Resync of a drifted file", () => {
  it("makes the bytes of the host the next version of the keytab", async () => {
    const { id, changed, managed } = await driftedFile();
    host.answerUploads(files);

    const { status, body } = await post(id, "resync", { change_reason: "rotated on the host" });

    expect(status).to.equal(200);
    expect(body).to.deep.equal((await keytab(managed.id)).body);
    expect(body).to.include({ id: managed.id, version: 2, kvno: 2, keytab_hash: hashOf(changed), source: "import" });
    const { body: history } = await server.admin.rest("GET", `/api/v1/keytabs/${managed.id}/history`);
    expect(history[0]).to.include({ version: 2, change_reason: "rotated on the host", changed_by: server.admin.id });
    expect(await record()).to.include({ id, state: "imported", drifted: false });
  });

  it("brings other hosts that hold the bytes along", async () => {
    const { id, changed } = await driftedFile();
    const beside = await Host.enroll(server);
    await report(changed, beside);
    host.answerUploads(files);

    const { body } = await post(id, "resync");

    expect(await recordOf(server.admin, beside)).to.include({ state: "imported", managed_keytab_id: body.id });
    beside.close();
  });

  it("is recorded with the file and the reason", async () => {
    const { id, managed } = await driftedFile();
    host.answerUploads(files);

    await post(id, "resync", { change_reason: "rotated" });

    const [event] = await server.sql(
      "select outcome, reason, resource_name, details::jsonb from audit_event where action = 'keytab.update' and resource_id = $1",
      [managed.id],
    );
    expect(event).to.include({ outcome: "success", reason: "rotated", resource_name: managed.name });
    expect(event.details).to.include({ version: 2, discovered_keytab_id: id, file_path: path, agent_id: host.id });
  });

  it("may be said twice under one Idempotency-Key, and happens once", async () => {
    const { id, managed } = await driftedFile();
    host.answerUploads(files);
    const key = { "idempotency-key": randomUUID() };

    const first = await post(id, "resync", {}, key);
    const second = await post(id, "resync", {}, key);

    expect([first.status, second.status]).to.deep.equal([200, 200]);
    expect(second.body).to.deep.equal(first.body);
    expect((await keytab(managed.id)).body.version).to.equal(2);
  });

  it("twice at once makes one version", async () => {
    const { id, managed } = await driftedFile();
    host.answerUploads(files);

    await Promise.all([post(id, "resync"), post(id, "resync")]);

    expect((await keytab(managed.id)).body.version).to.equal(2);
  });

  const refused: readonly { why: string; message: string; arrange: () => Promise<unknown> }[] = [
    {
      why: "is not managed",
      message: "the discovered keytab is discovered",
      arrange: () => report(newKeytab()),
    },
    {
      why: "has not drifted",
      message: "the file does not differ from its keytab",
      arrange: async () => {
        const bytes = newKeytab();
        await report(bytes);
        await importKeytab(server.admin, bytes);
      },
    },
    {
      why: "is stale",
      message: "the discovered keytab is stale",
      arrange: async () => {
        await driftedFile();
        await host.report([]);
      },
    },
    {
      why: "was managed by a keytab that is deleted",
      message: "the discovered keytab is discovered",
      arrange: async () => {
        const { managed } = await driftedFile();
        await server.admin.rest("DELETE", `/api/v1/keytabs/${managed.id}`);
      },
    },
  ];
  for (const { why, message, arrange } of refused) {
    it(`is refused when the file ${why}, without asking`, async () => {
      await arrange();
      const { id } = await record();

      const { status, body } = await post(id, "resync");

      const asked = await server.sql("select 1 from agent_command where agent_id = $1", [host.id]);
      expect(status).to.equal(409);
      expect(body.error).to.include({ code: "RESOURCE_CONFLICT", message });
      expect(asked).to.deep.equal([]);
    });
  }

  it("is refused when the agent is offline, and changes nothing", async () => {
    const { id, managed } = await driftedFile();
    await host.fallSilent();

    const { status } = await post(id, "resync");

    expect(status).to.equal(503);
    expect((await keytab(managed.id)).body.version).to.equal(1);
    expect((await record()).drifted).to.equal(true);
  });

  it("is refused when the file has changed again, of which the record says what it is now", async () => {
    const { id, managed } = await driftedFile();
    const again = newKeytab();
    files.set(path, again);
    host.answerUploads(files);

    const { status } = await post(id, "resync");

    expect(status).to.equal(409);
    expect((await keytab(managed.id)).body.version).to.equal(1);
    expect(await record()).to.include({ drifted: true, keytab_hash: hashOf(again) });
  });

  it("is refused when the cipher policy forbids what the file holds now", async () => {
    const { admin } = await server.otherOrganization();
    const there = await Host.enroll(server, { by: admin });
    const [bytes, changed] = [newKeytab(), newKeytab({ enctypes: [3] })];
    await report(bytes, there);
    const { id } = await importKeytab(admin, bytes);
    await report(changed, there);
    there.answerUploads(new Map([[path, changed]]));
    const policy = { allowed_ciphers: ["aes256-cts"], deprecated_ciphers: [], enforcement_mode: "enforce" };
    await admin.rest("PUT", "/api/v1/keytabs/cipher-policy", policy);
    const [found] = await discovered(admin);

    const { status } = await admin.rest("POST", `/api/v1/keytabs/discovered/${found.id}/resync`, {});

    expect(status).to.equal(400);
    expect((await admin.rest("GET", `/api/v1/keytabs/${id}`)).body.version).to.equal(1);
    there.close();
  });
});
