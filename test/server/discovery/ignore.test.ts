import { expect } from "chai";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { recordOf, someFile, statusesOf } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/etc/krb5.keytab";
let host: Host;

beforeEach(async () => {
  host = await Host.enroll(server);
});
afterEach(() => host.close());

const post = (id: string, action: string, body?: unknown) =>
  server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/${action}`, body);
const record = () => recordOf(server.admin, host);
const events = (id: string) =>
  server.sql(
    "select action, outcome, resource_name, reason, details::jsonb from audit_event where resource_id = $1 order by occurred_at, id",
    [id],
  );

/** The record of a file in a state. */
const inState = {
  async discovered() {
    await host.report([someFile(path)]);
    return record();
  },
  async ignored() {
    const { id } = await inState.discovered();
    await post(id, "ignore", { reason: "a test machine" });
    return record();
  },
  async imported() {
    const bytes = newKeytab();
    await host.report([foundKeytab(path, bytes)]);
    await importKeytab(server.admin, bytes);
    return record();
  },
  async stale() {
    await host.report([someFile(path)]);
    await host.report([]);
    return record();
  },
};

describe("A discovered keytab", () => {
  for (const [state, make] of Object.entries(inState)) {
    for (const [action, from, to] of [
      ["ignore", "discovered", "ignored"],
      ["unignore", "ignored", "discovered"],
    ] as const) {
      const isAllowed = state === from;
      it(`that is ${state} ${isAllowed ? `is ${to} after` : "refuses"} ${action}`, async () => {
        const before = await make();

        const { status, body } = await post(before.id, action, {});

        if (isAllowed) {
          expect(status).to.equal(200);
          expect(body.state).to.equal(to);
        } else {
          expect(status).to.equal(409);
          expect(body.error).to.include({
            code: "RESOURCE_CONFLICT",
            message: `the discovered keytab is ${state}`,
          });
        }
        expect((await record()).state).to.equal(isAllowed ? to : state);
      });
    }
  }
});

describe("Ignoring a discovered keytab", () => {
  it("keeps the reason, in the record and in the audit log", async () => {
    const { id } = await inState.discovered();

    const { body } = await post(id, "ignore", { reason: "a test machine" });

    expect(body).to.include({ id, state: "ignored", ignored_reason: "a test machine" });
    expect(await record()).to.deep.equal(body);
    expect(await events(id)).to.deep.equal([
      {
        action: "discovered_keytab.ignore",
        outcome: "success",
        resource_name: path,
        reason: "a test machine",
        details: { discovered_keytab_id: id, agent_id: host.id, hostname: host.hostname, file_path: path },
      },
    ]);
  });

  it("needs no reason, and takes none that is too long", async () => {
    const { id } = await inState.discovered();

    const tooLong = await post(id, "ignore", { reason: "ü".repeat(1001) });
    const without = await post(id, "ignore");

    expect(tooLong.status).to.equal(400);
    expect(without.body).to.include({ state: "ignored", ignored_reason: "" });
  });

  it("ends with its reason when it is taken back", async () => {
    const { id } = await inState.ignored();

    const { body } = await post(id, "unignore");

    expect(body).to.include({ state: "discovered", ignored_reason: null });
    expect((await events(id)).map(({ action }) => action)).to.deep.equal([
      "discovered_keytab.ignore",
      "discovered_keytab.unignore",
    ]);
  });

  it("lasts while the file is reported, whatever bytes it has", async () => {
    await inState.ignored();

    await host.report([someFile(path)]);

    expect(await record()).to.include({ state: "ignored", ignored_reason: "a test machine" });
  });

  it("ends when the bytes come under management", async () => {
    const bytes = newKeytab();
    await host.report([foundKeytab(path, bytes)]);
    const { id } = await record();
    await post(id, "ignore", { reason: "a test machine" });

    const keytab = await importKeytab(server.admin, bytes);
    expect(await record()).to.include({ state: "imported", ignored_reason: null });
    await server.admin.rest("DELETE", `/api/v1/keytabs/${keytab.id}`);

    expect(await record()).to.include({ state: "discovered", ignored_reason: null, is_managed: false });
  });

  it("that is refused is recorded as a failure", async () => {
    const { id } = await inState.stale();

    await post(id, "ignore", {});

    expect((await events(id)).map(({ action, outcome }) => `${action} ${outcome}`)).to.deep.equal([
      "discovered_keytab.ignore failure",
    ]);
  });

  it("twice at once succeeds once", async () => {
    const { id } = await inState.discovered();

    const answers = await Promise.all([post(id, "ignore", {}), post(id, "ignore", {})]);

    expect(statusesOf(answers)).to.deep.equal([200, 409]);
  });
});
