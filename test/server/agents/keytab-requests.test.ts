import { createHash, randomBytes } from "node:crypto";
import { expect } from "chai";
import { KeytabRequests } from "../../../src/server/agents/keytab-requests.ts";
import { Refusal } from "../../../src/server/errors.ts";
import type { Server } from "../../../src/server/server.ts";
import { until } from "../../faults/own-engines.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "./refusal.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const filePath = "/etc/krb5.keytab";
const hosts: Host[] = [];
let replica: Server;
before(async () => {
  replica = await server.startReplica();
});
afterEach(() => hosts.splice(0).forEach((host) => host.close()));

async function enroll(fields: Parameters<typeof Host.enroll>[1] = {}): Promise<Host> {
  const host = await Host.enroll(server, fields);
  hosts.push(host);
  return host;
}

interface Asking {
  readonly bytes?: Buffer;
  readonly path?: string;
  /** The replica that waits. */
  readonly on?: Server;
  readonly seconds?: number;
  readonly signal?: AbortSignal;
}

/** Asks a host for a file that it reported with these bytes. */
async function ask(host: Host, given: Asking = {}): Promise<Buffer> {
  const {
    bytes = Buffer.from("x"),
    path = filePath,
    on = server.server,
    signal = new AbortController().signal,
  } = given;
  const [agent] = await server.sql("select organization_id from agent where id = $1", [host.id]);
  const { id: agentId, hostname } = host;
  const file = {
    organizationId: agent.organization_id,
    agentId,
    hostname,
    filePath: path,
    expectedHash: hashOf(bytes),
  };
  return new KeytabRequests(on.core, given.seconds).ask(on.core.db, file, signal);
}

const hashOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const refused = (asked: Promise<unknown>) =>
  asked.then(
    () => "answered",
    (error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      return `${error.errorCode}: ${error.rawMessage}`;
    },
  );
const rows = (host: Host) => server.sql("select * from agent_command where agent_id = $1", [host.id]);
const keys = () => server.sql("select record_id from data_key");

/** The request that the host is asked next. */
async function nextRequest(host: Host): Promise<string> {
  const watch = host.watch();
  for await (const { kind } of watch) if (kind.case === "uploadKeytab") return kind.value.requestId;
  throw new Error("the stream has ended");
}

describe("A request for a keytab", () => {
  it("is answered with the bytes of the file, whichever replicas the agent and who asks are on", async () => {
    const replicas = [server.server, replica];
    for (const on of replicas) {
      for (const other of replicas) {
        const host = await enroll({ url: urlOf(other) });
        const bytes = newKeytab();
        host.answerUploads(new Map([[filePath, bytes]]));

        expect((await ask(host, { bytes, on })).equals(bytes)).to.equal(true);
      }
    }
  });

  it("is answered when the agent opens its stream in time", async () => {
    const host = await enroll();
    const bytes = newKeytab();

    const asked = ask(host, { bytes });
    await until(async () => (await rows(host)).length === 1);
    host.answerUploads(new Map([[filePath, bytes]]));

    expect((await asked).equals(bytes)).to.equal(true);
  });

  it("is told apart from others at the same time", async () => {
    const host = await enroll();
    const files = new Map(Array.from({ length: 20 }, (_, index) => [`/etc/${index}.keytab`, newKeytab()]));
    host.answerUploads(files);

    const asked = [...files].map(([path, bytes], index) =>
      ask(host, { path, bytes, on: index % 2 === 0 ? server.server : replica }),
    );

    expect((await Promise.all(asked)).map(hashOf)).to.deep.equal([...files.values()].map(hashOf));
  });

  it("takes a file of the largest size", async () => {
    const host = await enroll();
    const bytes = randomBytes(1024 * 1024);
    host.answerUploads(new Map([[filePath, bytes]]));

    expect((await ask(host, { bytes })).equals(bytes)).to.equal(true);
  });

  it("leaves neither the bytes nor their key when it was answered", async () => {
    const host = await enroll();
    const bytes = newKeytab();
    host.answerUploads(new Map([[filePath, bytes]]));
    const before = await keys();

    await ask(host, { bytes });

    expect(await keys()).to.deep.equal(before);
    expect((await rows(host)).map(({ status, upload }) => [status, upload])).to.deep.equal([["uploaded", null]]);
  });

  it("is refused without being asked while the agent is offline, disabled or another organization's", async () => {
    const [silent, disabled, foreign] = [await enroll(), await enroll(), await enroll()];
    await silent.fallSilent();
    await server.admin.rest("POST", `/api/v1/agents/${disabled.id}/disable`);
    const { organizationId } = await server.otherOrganization();
    const { core } = server.server;
    const file = { organizationId, agentId: foreign.id, hostname: foreign.hostname, filePath, expectedHash: "" };
    const askFromElsewhere = () => new KeytabRequests(core).ask(core.db, file, new AbortController().signal);

    const refusals = [await refused(ask(silent)), await refused(ask(disabled)), await refused(askFromElsewhere())];

    expect(refusals).to.deep.equal(
      [silent, disabled, foreign].map(({ hostname }) => `SERVICE_UNAVAILABLE: agent ${hostname} is offline`),
    );
    for (const host of [silent, disabled, foreign]) expect(await rows(host)).to.deep.equal([]);
  });

  it("says when to try again where that may help", async () => {
    const [silent, mute] = [await enroll(), await enroll()];
    await silent.fallSilent();

    for (const host of [silent, mute]) {
      const error = (await ask(host, { seconds: 0.1 }).catch((refusal: unknown) => refusal)) as Refusal;
      expect(error.retryAfterSeconds).to.equal(30);
    }
  });

  it("ends when the agent does not answer in time; a late answer finds nothing", async () => {
    const host = await enroll();
    const bytes = newKeytab();

    const asked = refused(ask(host, { bytes, seconds: 1.5 }));
    const requestId = await nextRequest(host);

    expect(await asked).to.equal(`SERVICE_UNAVAILABLE: agent ${host.hostname} did not answer in time`);
    const late = host.upload(requestId, { case: "keytabData", value: bytes });
    expect(await refusalOf(late)).to.equal("RESOURCE_NOT_FOUND: request not found");
    expect(await rows(host)).to.deep.equal([]);
  });

  it("ends when who asked goes; a late answer finds nothing", async () => {
    const host = await enroll();
    const bytes = newKeytab();
    const leaving = new AbortController();
    const gone = new Error("the caller went away");

    const asked = ask(host, { bytes, signal: leaving.signal }).catch((error: unknown) => error);
    const requestId = await nextRequest(host);
    leaving.abort(gone);

    expect(await asked).to.equal(gone);
    const late = host.upload(requestId, { case: "keytabData", value: bytes });
    expect(await refusalOf(late)).to.equal("RESOURCE_NOT_FOUND: request not found");
    expect(await rows(host)).to.deep.equal([]);
  });

  it("that nobody waits for any more, since its replica was lost, is not answered either", async () => {
    const host = await enroll();
    const [row] = await server.sql(
      `insert into agent_command (organization_id, agent_id, file_path, expected_hash, expires_at)
       select organization_id, id, $2, '', now() from agent where id = $1 returning id`,
      [host.id, filePath],
    );

    const late = host.upload(row.id, { case: "failure", value: "no such file" });

    expect(await refusalOf(late)).to.equal("RESOURCE_NOT_FOUND: request not found");
  });

  it("is refused when the file has changed, whether the agent says so or sends the other bytes", async () => {
    const host = await enroll();
    const [expected, changed] = [newKeytab(), newKeytab()];
    const outcomes = [
      { case: "changed" as const, value: foundKeytab(filePath, changed) },
      { case: "keytabData" as const, value: changed },
    ];
    const before = await keys();

    for (const outcome of outcomes) {
      const asked = refused(ask(host, { bytes: expected }));
      await host.upload(await nextRequest(host), outcome);

      expect(await asked).to.equal("RESOURCE_CONFLICT: file changed on the host; the record has been refreshed");
    }
    expect(await keys()).to.deep.equal(before);
  });

  it("is refused with the agent's reason when it cannot read the file", async () => {
    const host = await enroll();

    const asked = refused(ask(host));
    await host.upload(await nextRequest(host), { case: "failure", value: "permission denied" });

    expect(await asked).to.equal(`RESOURCE_CONFLICT: agent ${host.hostname}: permission denied`);
  });

  it("is answered once: the answer sent again is accepted, and changes nothing", async () => {
    const host = await enroll();
    const bytes = newKeytab();
    const asked = ask(host, { bytes });
    const requestId = await nextRequest(host);

    const first = await refusalOf(host.upload(requestId, { case: "keytabData", value: bytes }));
    const taken = await asked;
    const again = await refusalOf(host.upload(requestId, { case: "keytabData", value: bytes }));
    const other = await refusalOf(host.upload(requestId, { case: "failure", value: "no such file" }));

    expect([first, again, other]).to.deep.equal(["ok", "ok", "ok"]);
    expect(taken.equals(bytes)).to.equal(true);
    expect((await rows(host)).map(({ status, upload }) => [status, upload])).to.deep.equal([["uploaded", null]]);
  });

  it("is answered once by two answers at the same time", async () => {
    const host = await enroll();
    const bytes = newKeytab();
    const asked = ask(host, { bytes });
    const requestId = await nextRequest(host);

    const answers = [1, 2, 3].map(() => refusalOf(host.upload(requestId, { case: "keytabData", value: bytes })));

    expect(await Promise.all(answers)).to.deep.equal(["ok", "ok", "ok"]);
    expect((await asked).equals(bytes)).to.equal(true);
  });

  it("is answered by no other agent, of its organization or of another one", async () => {
    const { admin } = await server.otherOrganization();
    const [host, colleague, foreigner] = [await enroll(), await enroll(), await enroll({ by: admin })];
    const bytes = newKeytab();
    const asked = ask(host, { bytes });
    const requestId = await nextRequest(host);

    for (const other of [colleague, foreigner]) {
      const answer = other.upload(requestId, { case: "keytabData", value: bytes });
      expect(await refusalOf(answer)).to.equal("RESOURCE_NOT_FOUND: request not found");
    }
    await host.upload(requestId, { case: "keytabData", value: bytes });

    expect((await asked).equals(bytes)).to.equal(true);
  });

  it("ends with its agent, and leaves no key of what the agent sent", async () => {
    const host = await enroll();
    const bytes = newKeytab();
    const before = await keys();
    const asked = refused(ask(host, { bytes, seconds: 2 }));
    await host.upload(await nextRequest(host), { case: "keytabData", value: bytes });
    await asked;
    const unanswered = refused(ask(host, { bytes, seconds: 1 }));
    await until(async () => (await rows(host)).length === 2);

    await server.admin.rest("DELETE", `/api/v1/agents/${host.id}`);

    expect(await unanswered).to.equal(`SERVICE_UNAVAILABLE: agent ${host.hostname} did not answer in time`);
    expect(await rows(host)).to.deep.equal([]);
    expect(await keys()).to.deep.equal(before);
  });
});

describe("What an agent sends", () => {
  /** A request that nobody takes the answer of. */
  async function forsaken(host: Host, bytes: Buffer): Promise<string> {
    const [row] = await server.sql(
      `insert into agent_command (organization_id, agent_id, file_path, expected_hash, expires_at)
       select organization_id, id, $2, $3, now() + interval '1 hour' from agent where id = $1 returning id`,
      [host.id, filePath, hashOf(bytes)],
    );
    await host.upload(row.id, { case: "keytabData", value: bytes });
    return row.id;
  }

  it("is kept sealed, with a key of its own", async () => {
    const host = await enroll();
    const bytes = newKeytab();

    const id = await forsaken(host, bytes);

    const [row] = await rows(host);
    expect(row.status).to.equal("uploaded");
    expect(row.upload.includes(bytes.subarray(2, 34))).to.equal(false);
    expect((await keys()).map(({ record_id }) => record_id)).to.include(id);
  });

  it("is recorded with the file's name and what came of it, and is in no log", async () => {
    const host = await enroll();
    const bytes = newKeytab();

    const id = await forsaken(host, bytes);

    const [event] = await server.sql(
      "select * from audit_event where actor_id = $1 and action = 'agent.upload_keytab'",
      [host.id],
    );
    expect(event).to.include({ outcome: "success", actor_type: "agent", resource_name: host.hostname });
    expect(JSON.parse(event.details)).to.deep.equal({ request_id: id, file_path: filePath, outcome: "uploaded" });
    expect(server.log).to.include('"method":"UploadKeytab"');
    for (const form of ["base64", "hex"] as const) expect(server.log).not.to.include(bytes.toString(form));
  });
});
