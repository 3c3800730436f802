import { randomUUID, randomUUIDv7 } from "node:crypto";
import { expect } from "chai";
import { KeytabRequests } from "../../../src/server/agents/keytab-requests.ts";
import { fetching } from "../../../src/server/discovery/fetch-file.ts";
import { Refusal } from "../../../src/server/errors.ts";
import { Call } from "../../../src/server/wire/call.ts";
import type { Identity } from "../../../src/server/wire/identity.ts";
import type { Client } from "../../harness/client.ts";
import { type Found, foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { fieldsAtFault, hashOf, recordOf, someFile, statusesOf } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/etc/krb5.keytab";
const hosts: Host[] = [];
afterEach(() => hosts.splice(0).forEach((host) => host.close()));

interface Given {
  readonly by?: Client;
  readonly url?: string;
  /** What the agent says of the file. */
  readonly found?: Found;
  /** It does not answer by itself. */
  readonly silent?: boolean;
}

/** A host that has reported a file, and that answers with what is in `files` when it is asked. */
async function hostWith(bytes: Buffer, given: Given = {}) {
  const { by = server.admin, url = server.url, found = foundKeytab(path, bytes), silent = false } = given;
  const host = await Host.enroll(server, { by, url });
  hosts.push(host);
  const files = new Map([[path, bytes]]);
  await host.report([found]);
  if (!silent) host.answerUploads(files);
  const { id } = await recordOf(by, host);
  return { host, files, id: id as string };
}

/** The next request that the host gets for a file. */
async function nextRequest(host: Host): Promise<string> {
  for await (const { kind } of host.watch()) if (kind.case === "uploadKeytab") return kind.value.requestId;
  throw new Error("the agent was not asked");
}

const importFile = (id: string, body: unknown = {}, by = server.admin, headers = {}) =>
  by.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, body, headers);
const timesAsked = async (host: Host) =>
  (await server.sql("select count(*)::int as n from agent_command where agent_id = $1", [host.id]))[0].n;
const keytabs = async () => (await server.sql("select count(*)::int as n from keytab"))[0].n;

describe("Importing a discovered keytab", () => {
  it("stores the very bytes of the host, and links the record", async () => {
    const bytes = newKeytab({ principal: "HTTP/web1.example.com", kvno: 4, enctypes: [18, 17] });
    const { host, id } = await hostWith(bytes);

    const { status, headers, body } = await importFile(id);

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`/api/v1/keytabs/${body.id}`);
    expect(body).to.deep.include({
      name: "HTTP/web1.example.com@EXAMPLE.COM",
      principal: "HTTP/web1.example.com@EXAMPLE.COM",
      kvno: 4,
      encryption_types: ["aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96"],
      source: "discovered",
      status: "active",
      cipher_compliance: "compliant",
      version: 1,
      project_id: null,
      expires_at: null,
      keytab_hash: hashOf(bytes),
    });
    const download = await fetch(`${server.url}/api/v1/keytabs/${body.id}/download`, {
      headers: { authorization: `Bearer ${server.admin.token}` },
    });
    expect(Buffer.from(await download.arrayBuffer())).to.deep.equal(bytes);
    expect(await recordOf(server.admin, host)).to.include({
      id,
      state: "imported",
      is_managed: true,
      managed_keytab_id: body.id,
      drifted: false,
    });
  });

  it("keeps the bytes nowhere else", async () => {
    const { host, id } = await hostWith(newKeytab());

    const { body } = await importFile(id);

    const commands = await server.sql("select id, upload from agent_command where agent_id = $1", [host.id]);
    const keys = await server.sql("select record_id from data_key where record_id = any($1)", [
      [commands[0].id, body.id.replace("kt_", "")],
    ]);
    expect(commands.map(({ upload }) => upload)).to.deep.equal([null]);
    expect(keys).to.deep.equal([{ record_id: body.id.replace("kt_", "") }]);
  });

  it("takes a name, a project and an end", async () => {
    const { id } = await hostWith(newKeytab());

    const { body } = await importFile(id, {
      name: "web server",
      project_id: server.projectId,
      expires_at: "2031-01-01T00:00:00Z",
    });

    expect(body).to.include({
      name: "web server",
      project_id: server.projectId,
      expires_at: "2031-01-01T00:00:00.000Z",
    });
  });

  it("names the keytab after as much of the principal as a name may hold", async () => {
    const principal = `HTTP/${"ü".repeat(300)}`;
    const { id } = await hostWith(newKeytab({ principal }));

    const { body } = await importFile(id);

    expect([...body.name]).to.have.length(255);
    expect(body.name).to.equal(principal.slice(0, 255));
  });

  it("ends that the file is ignored", async () => {
    const { host, id } = await hostWith(newKeytab());
    await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/ignore`, { reason: "later" });

    expect((await importFile(id)).status).to.equal(201);

    expect(await recordOf(server.admin, host)).to.include({ state: "imported", ignored_reason: null });
  });

  it("is recorded with the file that it was", async () => {
    const { host, id } = await hostWith(newKeytab({ principal: "HTTP/recorded", kvno: 2 }));

    const { body } = await importFile(id, { project_id: server.projectId });

    const [event] = await server.sql("select *, details::jsonb from audit_event where resource_id = $1", [body.id]);
    expect(event).to.include({
      action: "keytab.import",
      outcome: "success",
      resource_name: "HTTP/recorded@EXAMPLE.COM",
      project_id: server.projectId,
    });
    expect(event.details).to.deep.include({
      version: 1,
      kvno: 2,
      discovered_keytab_id: id,
      agent_id: host.id,
      hostname: host.hostname,
      file_path: path,
    });
    const [upload] = await server.sql("select *, details::jsonb from audit_event where action = $1 and actor_id = $2", [
      "agent.upload_keytab",
      host.id,
    ]);
    expect(upload).to.include({ outcome: "success", actor_type: "agent", resource_name: host.hostname });
    expect(upload.details).to.include({ file_path: path });
  });

  it("asks the agent on whichever replica it waits", async () => {
    const replica = await server.startReplica();
    const { id } = await hostWith(newKeytab(), { url: urlOf(replica) });

    expect((await importFile(id)).status).to.equal(201);
  });

  it("may be said twice under one Idempotency-Key, and happens once", async () => {
    const { host, id } = await hostWith(newKeytab());
    const key = { "idempotency-key": randomUUID() };

    const first = await importFile(id, {}, server.admin, key);
    const second = await importFile(id, {}, server.admin, key);

    expect([first.status, second.status]).to.deep.equal([201, 201]);
    expect(second.body).to.deep.equal(first.body);
    expect(second.headers.get("idempotency-replayed")).to.equal("true");
    expect(await timesAsked(host)).to.equal(1);
  });

  it("twice at once makes one keytab: one 201, one 409", async () => {
    const { host, id } = await hostWith(newKeytab());
    const before = await keytabs();

    const answers = await Promise.all([importFile(id), importFile(id)]);

    expect(statusesOf(answers)).to.deep.equal([201, 409]);
    expect(await keytabs()).to.equal(before + 1);
    expect((await recordOf(server.admin, host)).state).to.equal("imported");
  });

  it("of one file on two hosts at once makes one keytab, which both files belong to", async () => {
    const bytes = newKeytab();
    const found = [await hostWith(bytes), await hostWith(bytes)];

    const answers = await Promise.all(found.map(({ id }) => importFile(id)));

    expect(statusesOf(answers)).to.deep.equal([201, 409]);
    for (const { host } of found) expect((await recordOf(server.admin, host)).state).to.equal("imported");
  });

  it("and importing the same file over REST at once makes one keytab", async () => {
    const bytes = newKeytab();
    const { host, id } = await hostWith(bytes);
    const file = { name: "k", keytab_data: bytes.toString("base64") };

    const answers = await Promise.all([importFile(id), server.admin.rest("POST", "/api/v1/keytabs", file)]);

    expect(statusesOf(answers)).to.deep.equal([201, 409]);
    expect((await recordOf(server.admin, host)).state).to.equal("imported");
  });
});

describe("Importing a discovered keytab is refused", () => {
  it("when the agent is offline: at once, and nothing is queued", async () => {
    const { host, id } = await hostWith(newKeytab());
    await host.fallSilent();

    const { status, headers, body } = await importFile(id);

    expect(status).to.equal(503);
    expect(headers.get("retry-after")).to.equal("30");
    expect(body.error).to.include({ code: "SERVICE_UNAVAILABLE", message: `agent ${host.hostname} is offline` });
    expect(await timesAsked(host)).to.equal(0);
    expect((await recordOf(server.admin, host)).state).to.equal("discovered");
  });

  it("when the agent does not answer in time", async () => {
    const { host, id } = await hostWith(newKeytab(), { silent: true });
    const { core } = server.server;
    const [{ organization_id: organizationId }] = await server.sql("select organization_id from agent where id = $1", [
      host.id,
    ]);
    const source = { door: "rest", requestId: "r", method: "POST", address: "", header: () => undefined } as const;
    const call = new Call({ ...source, isOwnOrigin: () => false }, core.db);
    call.identity = { organizationId } as Identity;
    const prepare = fetching(new KeytabRequests(core, 1))["importDiscoveredKeytab"];

    const refusal: unknown = await prepare?.({ id } as never, call, new AbortController().signal).catch(
      (error: unknown) => error,
    );

    expect(refusal).to.be.instanceOf(Refusal);
    expect(refusal).to.include({
      errorCode: "SERVICE_UNAVAILABLE",
      rawMessage: `agent ${host.hostname} did not answer in time`,
      retryAfterSeconds: 30,
    });
    expect((await recordOf(server.admin, host)).state).to.equal("discovered");
  });

  it("when the file has changed, of which the record says what it is now", async () => {
    const { host, files, id } = await hostWith(newKeytab({ kvno: 1 }));
    const changed = newKeytab({ principal: "HTTP/changed", kvno: 2 });
    files.set(path, changed);

    const { status, body } = await importFile(id);

    expect(status).to.equal(409);
    expect(body.error.message).to.equal("file changed on the host; the record has been refreshed");
    expect(await recordOf(server.admin, host)).to.include({
      id,
      state: "discovered",
      keytab_hash: hashOf(changed),
      principal: "HTTP/changed@EXAMPLE.COM",
      kvno: 2,
    });
    expect((await importFile(id)).status).to.equal(201);
  });

  it("when the agent cannot read the file, with its reason", async () => {
    const { host, files, id } = await hostWith(newKeytab());
    files.delete(path);

    const { status, body } = await importFile(id);

    expect(status).to.equal(409);
    expect(body.error.message).to.contain("no such file");
    expect((await recordOf(server.admin, host)).state).to.equal("discovered");
  });

  it("when the file is stale, without asking", async () => {
    const { host, id } = await hostWith(newKeytab());
    await host.report([]);

    const { status, body } = await importFile(id);

    expect(status).to.equal(409);
    expect(body.error.message).to.equal("the discovered keytab is stale");
    expect(await timesAsked(host)).to.equal(0);
  });

  it("when it is imported, without asking", async () => {
    const bytes = newKeytab();
    const { host, id } = await hostWith(bytes);
    await importKeytab(server.admin, bytes);

    const { status, body } = await importFile(id);

    expect(status).to.equal(409);
    expect(body.error.message).to.equal("the discovered keytab is imported");
    expect(await timesAsked(host)).to.equal(0);
  });

  it("when its bytes are managed and it is not linked yet, without asking", async () => {
    const bytes = newKeytab();
    const { host, id } = await hostWith(bytes);
    await importKeytab(server.admin, bytes);
    await server.sql("update discovered_keytab set managed_keytab_id = null where id = $1", [id]);

    const { status, body } = await importFile(id);

    expect(status).to.equal(409);
    expect(body.error.message).to.equal("a keytab with the bytes of this file is managed already");
    expect(await timesAsked(host)).to.equal(0);
  });

  it("for a project that is not there for the caller, without asking", async () => {
    const { host, id } = await hostWith(newKeytab());
    const { projectId } = await server.otherOrganization();

    for (const project of [randomUUID(), projectId]) {
      const { status, body } = await importFile(id, { project_id: project });

      expect(status).to.equal(404);
      expect(body.error.details).to.deep.equal([{ field: "project_id", message: "does not exist" }]);
    }
    expect(await timesAsked(host)).to.equal(0);
  });

  it("with fields that are none, without asking", async () => {
    const { host, id } = await hostWith(newKeytab());

    const answers = await Promise.all(
      [{ name: "" }, { name: "x".repeat(256) }, { project_id: "x" }, { expires_at: "2031-01-01" }].map((body) =>
        importFile(id, body),
      ),
    );

    expect(answers.map(({ status }) => status)).to.deep.equal([400, 400, 400, 400]);
    expect(await timesAsked(host)).to.equal(0);
  });

  for (const { why, bytes } of [
    { why: "is no keytab", bytes: Buffer.from("[libdefaults]\n") },
    { why: "is cut off", bytes: newKeytab().subarray(0, -3) },
    { why: "has more entries than any", bytes: newKeytab({ enctypes: Array(10_001).fill(18) }) },
  ]) {
    it(`when the file ${why}, and nothing is stored`, async () => {
      const { host, id } = await hostWith(bytes, { found: someFile(path, { keytabHash: hashOf(bytes) }) });
      const before = await keytabs();

      const { status, body } = await importFile(id);

      expect(status).to.equal(400);
      expect(body.error.details.map(({ field }: { field: string }) => field)).to.deep.equal(["keytab_data"]);
      expect(await keytabs()).to.equal(before);
      expect((await recordOf(server.admin, host)).state).to.equal("discovered");
    });
  }

  it("when the cipher policy forbids what the file holds, and nothing is stored", async () => {
    const { admin } = await server.otherOrganization();
    const policy = { allowed_ciphers: ["aes256-cts"], deprecated_ciphers: [], enforcement_mode: "enforce" };
    await admin.rest("PUT", "/api/v1/keytabs/cipher-policy", policy);
    const { host, id } = await hostWith(newKeytab({ enctypes: [18, 23, 3] }), { by: admin });

    const { status, body } = await importFile(id, {}, admin);

    expect(status).to.equal(400);
    expect(body.error.details).to.deep.equal([
      { field: "keytab_data", message: "arcfour-hmac: not in allowed_ciphers" },
      { field: "keytab_data", message: "des-cbc-md5: not in allowed_ciphers" },
    ]);
    expect((await admin.rest("GET", "/api/v1/keytabs")).body.total).to.equal(0);
    expect((await recordOf(admin, host)).state).to.equal("discovered");
  });

  it("and recorded as a failure, with the file that it was about", async () => {
    const { host, id } = await hostWith(newKeytab());
    await host.fallSilent();
    await host.report([]);

    await importFile(id);

    const [event] = await server.sql(
      "select outcome, reason, details::jsonb from audit_event where action = 'keytab.import' and details::jsonb->>'discovered_keytab_id' = $1",
      [id],
    );
    expect(event).to.deep.include({ outcome: "failure", reason: "RESOURCE_CONFLICT" });
    expect(event.details).to.include({ file_path: path, agent_id: host.id });
  });
});

describe("What happens to a file while the agent is asked for it", () => {
  /** Imports a file, of which something becomes known between the question and the answer. */
  async function importWhile(bytes: Buffer, meanwhile: (host: Host) => Promise<unknown>) {
    const { host, id } = await hostWith(bytes, { silent: true });
    const importing = importFile(id);
    const requestId = await nextRequest(host);
    await meanwhile(host);
    await host.upload(requestId, { case: "keytabData", value: bytes });
    return { host, answer: await importing };
  }

  it("is that it became stale: then it is not imported", async () => {
    const { host, answer } = await importWhile(newKeytab(), (each) => each.report([]));

    expect(answer.status).to.equal(409);
    expect(answer.body.error.message).to.equal("the discovered keytab is stale");
    expect(await recordOf(server.admin, host)).to.include({ state: "stale", is_managed: false });
  });

  it("is that it was reported with other bytes: then it is not imported", async () => {
    const before = await keytabs();

    const { host, answer } = await importWhile(newKeytab(), (each) => each.report([foundKeytab(path, newKeytab())]));

    expect(answer.status).to.equal(409);
    expect(await recordOf(server.admin, host)).to.include({ state: "discovered", is_managed: false });
    expect(await keytabs()).to.equal(before);
  });

  it("is that somebody ignored it: then it is imported all the same", async () => {
    const { host, answer } = await importWhile(newKeytab(), async (each) => {
      const { id } = await recordOf(server.admin, each);
      await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/ignore`, {});
    });

    expect(answer.status).to.equal(201);
    expect((await recordOf(server.admin, host)).state).to.equal("imported");
  });

  it("is that somebody else imported it: then there is one keytab", async () => {
    const bytes = newKeytab();

    const { host, answer } = await importWhile(bytes, () => importKeytab(server.admin, bytes));

    expect(answer.status).to.equal(409);
    expect((await recordOf(server.admin, host)).state).to.equal("imported");
  });
});

describe("An answer of an agent", () => {
  it("of more than a keytab may have is refused", async () => {
    const { host } = await hostWith(newKeytab());

    const answer = host.upload(randomUUID(), { case: "keytabData", value: Buffer.alloc(1024 * 1024 + 1) });

    expect(await fieldsAtFault(answer)).to.deep.equal(["keytab_data"]);
  });

  it("that the file has changed refreshes its record, also while an earlier scan is being reported", async () => {
    const bytes = newKeytab();
    const { host, id } = await hostWith(bytes, { silent: true });
    const scanId = randomUUIDv7();
    const importing = importFile(id);
    const changed = newKeytab();
    await host.upload(await nextRequest(host), { case: "changed", value: foundKeytab(path, changed) });
    await importing;

    await host.report([foundKeytab(path, bytes)], { scanId });

    expect(await recordOf(server.admin, host)).to.include({ id, keytab_hash: hashOf(changed), state: "discovered" });
  });
});
