import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import type { Answer } from "../../harness/client.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { hashOf, recordOf, statesOf } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const policyPath = "/api/v1/keytabs/cipher-policy";
const hosts: Host[] = [];
afterEach(() => hosts.splice(0).forEach((host) => host.close()));

async function newHost(): Promise<Host> {
  const host = await Host.enroll(server);
  hosts.push(host);
  return host;
}

/** Holds rows until it is told to let go. */
async function hold(statement: string, values: unknown[]): Promise<() => Promise<void>> {
  const session = new pg.Client(server.databaseUrl);
  await session.connect();
  await session.query("begin");
  await session.query(statement, values);
  return async () => {
    await session.query("commit");
    await session.end();
  };
}

/** Until so many statements wait for what others have locked. */
async function untilWaiting(count: number): Promise<void> {
  for (;;) {
    const [{ n }] = await server.sql(
      "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    if (n >= count) return;
    await sleep(10);
  }
}

const holdFile = (id: string) => hold("select 1 from discovered_keytab where id = $1 for update", [id]);

describe("A report and a keytab that gets a new file at the same time", () => {
  it("do not wait for each other, although each is about what the other one holds", async () => {
    const [before, after] = [newKeytab(), newKeytab()];
    const keytab = await importKeytab(server.admin, before);
    const host = await newHost();
    await host.report([foundKeytab("/etc/b", after)]);
    const letGo = await holdFile((await recordOf(server.admin, host, "/etc/b")).id);

    // The report has a file of the keytab and waits for the one that the keytab is about to get.
    const reporting = host.report([foundKeytab("/etc/a", before), foundKeytab("/etc/b", after)]);
    await untilWaiting(1);
    const replacing = server.admin.rest("PUT", `/api/v1/keytabs/${keytab.id}`, {
      keytab_data: after.toString("base64"),
    });
    await untilWaiting(2);
    await letGo();

    expect((await replacing).status).to.equal(200);
    expect(await reporting).to.include({ discovered: 1 });
    expect(await statesOf(server.admin, host)).to.deep.equal({ "/etc/a": "imported", "/etc/b": "imported" });
  });
});

describe("A report of an agent that is removed at the same time", () => {
  it("is refused as one of nobody's", async () => {
    const host = await newHost();
    const letGo = await hold("delete from agent where id = $1", [host.id]);

    const reporting = refusalOf(host.report([foundKeytab("/etc/a", newKeytab())]));
    await untilWaiting(1);
    await letGo();

    expect(await reporting).to.equal("PERMISSION_DENIED: the caller is not an enrolled agent");
  });
});

describe("What happens while an agent is asked for a file", () => {
  /** Sends the call, lets `meanwhile` happen once the agent was asked, and then lets the agent answer. */
  async function during(host: Host, send: () => Promise<Answer>, bytes: Buffer, meanwhile: () => Promise<Answer>) {
    const watch = host.watch();
    const answer = send();
    for await (const { kind } of watch) {
      if (kind.case !== "uploadKeytab") continue;
      const happened = await meanwhile();
      expect(happened.status).to.be.oneOf([200, 204]);
      await host.upload(kind.value.requestId, { case: "keytabData", value: bytes });
      break;
    }
    return answer;
  }

  /** What is left of the bytes that the agent of a host sent. */
  const leftOf = (host: Host) =>
    server.sql(
      `select c.upload, d.wrapped from agent_command c left join data_key d on d.record_id = c.id
       where c.agent_id = $1 and (c.upload is not null or d.wrapped is not null)`,
      [host.id],
    );
  const keytabWith = async (bytes: Buffer) =>
    (await server.sql("select 1 from keytab where keytab_hash = $1 and deleted_at is null", [hashOf(bytes)])).length;

  it("is that its project is removed: then it is not imported", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "short-lived" });
    const host = await newHost();
    const bytes = newKeytab();
    await host.report([foundKeytab("/etc/a", bytes)]);
    const { id } = await recordOf(server.admin, host);
    const send = () => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, { project_id: project.id });

    const { status, body } = await during(host, send, bytes, () =>
      server.admin.rest("DELETE", `/api/v1/projects/${project.id}`),
    );

    expect(status).to.equal(404);
    expect(body.error.details[0].field).to.equal("project_id");
    expect(await keytabWith(bytes)).to.equal(0);
    expect(await leftOf(host)).to.deep.equal([]);
  });

  it("is that its keytab is deleted: then nothing is resynced", async () => {
    const [before, after] = [newKeytab(), newKeytab()];
    const keytab = await importKeytab(server.admin, before);
    const host = await newHost();
    await host.report([foundKeytab("/etc/a", before)]);
    await host.report([foundKeytab("/etc/a", after)]);
    const { id } = await recordOf(server.admin, host);
    const send = () => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/resync`, {});

    const { status } = await during(host, send, after, () =>
      server.admin.rest("DELETE", `/api/v1/keytabs/${keytab.id}`),
    );

    expect(status).to.equal(404);
    expect(await keytabWith(after)).to.equal(0);
    expect(await leftOf(host)).to.deep.equal([]);
  });

  it("is that its keytab gets another file: then that one is replaced, and stays a version", async () => {
    const [before, between, after] = [newKeytab(), newKeytab(), newKeytab()];
    const keytab = await importKeytab(server.admin, before);
    const host = await newHost();
    await host.report([foundKeytab("/etc/a", before)]);
    await host.report([foundKeytab("/etc/a", after)]);
    const { id } = await recordOf(server.admin, host);
    const send = () => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/resync`, {});

    const { status } = await during(host, send, after, () =>
      server.admin.rest("PUT", `/api/v1/keytabs/${keytab.id}`, { keytab_data: between.toString("base64") }),
    );

    expect(status).to.equal(200);
    const { body: versions } = await server.admin.rest("GET", `/api/v1/keytabs/${keytab.id}/history`);
    expect(versions.map((each: { keytab_hash: string }) => each.keytab_hash)).to.deep.equal(
      [after, between, before].map(hashOf),
    );
  });

  it("is that it was reported with other bytes: then nothing is resynced", async () => {
    const [before, between, after] = [newKeytab(), newKeytab(), newKeytab()];
    const keytab = await importKeytab(server.admin, before);
    const host = await newHost();
    await host.report([foundKeytab("/etc/a", before)]);
    await host.report([foundKeytab("/etc/a", between)]);
    const { id } = await recordOf(server.admin, host);
    const send = () => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/resync`, {});

    const { status } = await during(host, send, between, async () => {
      await host.report([foundKeytab("/etc/a", after)]);
      return server.admin.rest("GET", `/api/v1/keytabs/discovered/${id}`);
    });

    expect(status).to.equal(409);
    expect((await server.admin.rest("GET", `/api/v1/keytabs/${keytab.id}`)).body).to.deep.equal(keytab);
    expect(await leftOf(host)).to.deep.equal([]);
  });

  it("is that the cipher policy is enforced: then what it forbids is not imported", async () => {
    const host = await newHost();
    const bytes = newKeytab({ enctypes: [23] });
    await host.report([foundKeytab("/etc/a", bytes)]);
    const { id } = await recordOf(server.admin, host);
    const send = () => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    const policy = {
      allowed_ciphers: ["aes256-cts-hmac-sha1-96"],
      deprecated_ciphers: [],
      enforcement_mode: "enforce",
    };

    const { status } = await during(host, send, bytes, () => server.admin.rest("PUT", policyPath, policy));
    await server.sql("delete from cipher_policy");

    expect(status).to.equal(400);
    expect(await keytabWith(bytes)).to.equal(0);
    expect(await leftOf(host)).to.deep.equal([]);
  });
});

describe("One Idempotency-Key", () => {
  it("for an import and a resync is refused, and makes no version", async () => {
    const [before, after] = [newKeytab(), newKeytab()];
    const host = await newHost();
    const files = new Map([["/etc/a", before]]);
    host.answerUploads(files);
    await host.report([foundKeytab("/etc/a", before)]);
    const { id } = await recordOf(server.admin, host);
    const key = { "idempotency-key": "one-for-both" };
    const imported = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {}, key);
    files.set("/etc/a", after);
    await host.report([foundKeytab("/etc/a", after)]);

    const { status } = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/resync`, {}, key);

    expect([imported.status, status]).to.deep.equal([201, 409]);
    expect((await server.admin.rest("GET", `/api/v1/keytabs/${imported.body.id}`)).body.version).to.equal(1);
  });
});
