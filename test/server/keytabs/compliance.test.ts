import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

let admin: Client;
let organizationId: string;
let projectId: string;
beforeEach(async () => {
  ({ admin, organizationId, projectId } = await server.otherOrganization());
});

const [aes256, aes128, rc4, des3, desMd5, unknown] = [18, 17, 23, 16, 3, 999];
const importOf = (enctypes: readonly number[], fields = {}) => importKeytab(admin, newKeytab({ enctypes }), fields);
const read = async (id: string) => (await admin.rest("GET", `/api/v1/keytabs/${id}`)).body;
const check = (id: string, by = admin) => by.rest("POST", `/api/v1/keytabs/${id}/check-compliance`);
const refresh = (by = admin) => by.rest("POST", "/api/v1/keytabs/refresh-compliance");
const eventsOf = (action: string) =>
  server.sql("select * from audit_event where organization_id = $1 and action = $2", [organizationId, action]);

async function setPolicy(allowed: readonly string[], deprecated: readonly string[] = [], mode = "warn"): Promise<void> {
  const { status } = await admin.rest("PUT", "/api/v1/keytabs/cipher-policy", {
    allowed_ciphers: allowed,
    deprecated_ciphers: deprecated,
    enforcement_mode: mode,
  });
  expect(status).to.equal(200);
}

const notAllowed = "not in allowed_ciphers";
const isDeprecated = "deprecated by the cipher policy";

describe("The verdict", () => {
  const ofDefaultPolicy: [string, number[], string, Record<string, string>][] = [
    ["strong types", [aes256, aes128, 20, 19], "compliant", {}],
    ["RC4 beside a strong type", [aes256, rc4], "warning", { "arcfour-hmac": isDeprecated }],
    ["DES", [desMd5], "non_compliant", { "des-cbc-md5": notAllowed }],
    [
      "DES, 3DES and RC4",
      [rc4, desMd5, aes256, des3],
      "non_compliant",
      { "des-cbc-md5": notAllowed, "des3-cbc-sha1": notAllowed, "arcfour-hmac": isDeprecated },
    ],
    ["Camellia, which nobody approved", [26], "non_compliant", { "camellia256-cts-cmac": notAllowed }],
    ["a type that nobody knows", [aes256, unknown], "non_compliant", { "etype-999": notAllowed }],
  ];
  for (const [what, enctypes, compliance, violations] of ofDefaultPolicy) {
    it(`of the first policy on ${what} is ${compliance}, at the import, by a check and by a refresh`, async () => {
      const keytab = await importOf(enctypes);
      const { status, body } = await check(keytab.id);
      await server.sql("update keytab set cipher_compliance = 'compliant' where organization_id = $1", [
        organizationId,
      ]);
      await refresh();

      expect(keytab.cipher_compliance).to.equal(compliance);
      expect(status).to.equal(200);
      expect(body).to.deep.equal({ cipher_compliance: compliance, cipher_violations: violations });
      expect((await read(keytab.id)).cipher_compliance).to.equal(compliance);
    });
  }

  it("knows the types of a policy by any of their names", async () => {
    await setPolicy(["AES256-CTS", "aes128-sha1", "rc4-hmac", "DES3-HMAC-SHA1", "etype-999"], ["DEPRECATED:rc4-hmac"]);
    const strong = await importOf([aes256, aes128, des3, unknown]);
    const weak = await importOf([aes256, rc4]);

    expect((await check(strong.id)).body.cipher_compliance).to.equal("compliant");
    expect((await check(weak.id)).body.cipher_violations).to.deep.equal({ "arcfour-hmac": isDeprecated });
    expect((await refresh()).body).to.deep.equal({ evaluated: 2, updated: 0 });
  });

  it("matches names that nobody knows with nothing", async () => {
    await setPolicy(["aes256-cts", "quantum-cts"], ["quantum-cts"]);
    const { id } = await importOf([aes256]);

    expect((await check(id)).body).to.deep.equal({ cipher_compliance: "compliant", cipher_violations: {} });
  });

  it("stays when the policy changes, until the keytab is checked", async () => {
    const { id, updated_at } = await importOf([aes256, rc4]);

    await setPolicy(["aes256-cts"]);

    expect(await read(id)).to.include({ cipher_compliance: "warning", updated_at });
    expect((await check(id)).body.cipher_compliance).to.equal("non_compliant");
    expect((await read(id)).cipher_compliance).to.equal("non_compliant");
  });
});

describe("CheckKeytabCompliance", () => {
  it("changes the record only when the verdict is another one", async () => {
    const { id, updated_at: before } = await importOf([rc4]);
    await sleep(2);
    await check(id);
    expect((await read(id)).updated_at).to.equal(before);

    await setPolicy(["rc4-hmac"]);
    await check(id);

    const { updated_at: after, cipher_compliance, version } = await read(id);
    expect(Date.parse(after)).to.be.above(Date.parse(before));
    expect({ cipher_compliance, version }).to.deep.equal({ cipher_compliance: "compliant", version: 1 });
  });

  it("is for those who may write in the keytab's project", async () => {
    const { body: other } = await admin.rest("POST", "/api/v1/projects", { name: "other" });
    const editor = await server.as("editor-here", { projectRoles: [{ project_id: projectId, role: "editor" }] }, admin);
    const viewer = await server.as("viewer-everywhere", ["viewer"], admin);
    const here = await importOf([aes256], { project_id: projectId });
    const there = await importOf([aes256], { project_id: other.id });
    const nowhere = await importOf([aes256]);

    expect((await check(here.id, editor)).status).to.equal(200);
    expect((await check(there.id, editor)).status).to.equal(403);
    expect((await check(nowhere.id, editor)).status).to.equal(403);
    expect((await check(here.id, viewer)).status).to.equal(403);
  });

  it("answers 404 for what is not there, deleted, malformed, or another organization's", async () => {
    const { id } = await importOf([aes256]);
    await admin.rest("DELETE", `/api/v1/keytabs/${id}`);
    const theirs = await importKeytab(server.admin);

    for (const each of [id, theirs.id, "kt_00000000-0000-7000-8000-000000000000", "kt_1"]) {
      expect((await check(each)).status, each).to.equal(404);
    }
  });

  it("takes the id with and without kt_", async () => {
    const { id } = await importOf([aes256]);

    expect((await check(id.replace("kt_", ""))).status).to.equal(200);
  });

  it("is recorded with the verdict before and after", async () => {
    const { id } = await importOf([rc4]);
    await setPolicy(["aes256-cts"]);

    await check(id);

    const [event] = await eventsOf("keytab.check_compliance");
    expect(event).to.include({ outcome: "success", resource_id: id });
    expect(JSON.parse(event.details)).to.deep.equal({ before: "warning", after: "non_compliant" });
  });
});

describe("RefreshKeytabCompliance", () => {
  it("checks all keytabs that are not deleted, and counts those whose verdict changed", async () => {
    const strong = await importOf([aes256]);
    const weak = await importOf([aes256, rc4]);
    const broken = await importOf([desMd5], { expires_at: "2020-01-01T00:00:00Z" });
    const deleted = await importOf([desMd5]);
    await admin.rest("DELETE", `/api/v1/keytabs/${deleted.id}`);
    await setPolicy(["aes256-cts"]);

    const { status, body } = await refresh();

    expect(status).to.equal(200);
    expect(body).to.deep.equal({ updated: 1, evaluated: 3 });
    expect(await read(strong.id)).to.deep.equal(strong);
    expect(await read(broken.id)).to.deep.equal({ ...broken, status: "expired" });
    const changed = await read(weak.id);
    expect(changed.cipher_compliance).to.equal("non_compliant");
    expect(Date.parse(changed.updated_at)).to.be.above(Date.parse(weak.updated_at));
    expect((await refresh()).body).to.deep.equal({ updated: 0, evaluated: 3 });
  });

  it("answers zeros where there are no keytabs", async () => {
    expect((await refresh()).body).to.deep.equal({ updated: 0, evaluated: 0 });
  });

  it("leaves the keytabs of other organizations alone", async () => {
    const other = await server.otherOrganization();
    const theirs = await importKeytab(other.admin, newKeytab({ enctypes: [desMd5] }));
    await server.sql("update keytab set cipher_compliance = 'compliant' where id = $1", [theirs.id.replace("kt_", "")]);
    await importOf([desMd5]);

    expect((await refresh()).body).to.deep.equal({ updated: 0, evaluated: 1 });
    const { body } = await other.admin.rest("GET", `/api/v1/keytabs/${theirs.id}`);
    expect(body.cipher_compliance).to.equal("compliant");
  });

  it("is for those who may write keytabs at the organization, and is recorded", async () => {
    const editor = await server.as("editor-org", ["editor"], admin);
    const ofProject = await server.as(
      "editor-project",
      { projectRoles: [{ project_id: projectId, role: "editor" }] },
      admin,
    );
    const viewer = await server.as("viewer-org", ["viewer"], admin);
    await importOf([rc4]);
    await setPolicy(["rc4-hmac"]);

    const statuses = [];
    for (const by of [editor, ofProject, viewer]) statuses.push((await refresh(by)).status);

    expect(statuses).to.deep.equal([200, 403, 403]);
    const event = (await eventsOf("keytab.refresh_compliance")).find(({ outcome }) => outcome === "success");
    expect(JSON.parse(event.details)).to.deep.equal({ evaluated: 1, updated: 1 });
  });

  describe("while somebody else changes a keytab", () => {
    let other: pg.Client;
    beforeEach(async () => {
      other = new pg.Client(server.databaseUrl);
      await other.connect();
      await other.query("begin");
    });
    afterEach(() => other.end());

    /** Resolves when a statement of the server waits for a lock. */
    async function untilWaiting(): Promise<void> {
      const waiting = `select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%from keytab%'`;
      while ((await server.sql(waiting)).length === 0) await sleep(5);
    }

    it("judges it by what it holds then", async () => {
      const { id } = await importOf([rc4]);
      await setPolicy(["aes256-cts", "rc4-hmac"]);
      await other.query("update keytab set encryption_types = '{des-cbc-md5}' where id = $1", [id.replace("kt_", "")]);

      const refreshing = refresh();
      await untilWaiting();
      await other.query("commit");

      expect((await refreshing).body).to.deep.equal({ updated: 1, evaluated: 1 });
      expect((await read(id)).cipher_compliance).to.equal("non_compliant");
    });

    it("runs once: a second refresh is refused with 409, and one of another organization is not", async () => {
      const { id } = await importOf([rc4]);
      await setPolicy(["rc4-hmac"]);
      const { admin: otherAdmin } = await server.otherOrganization();
      await other.query("select 1 from keytab where id = $1 for update", [id.replace("kt_", "")]);

      const first = refresh();
      await untilWaiting();
      const second = await refresh();
      const elsewhere = await refresh(otherAdmin);
      await other.query("rollback");

      expect(second.status).to.equal(409);
      expect(second.body.error).to.include({ code: "RESOURCE_CONFLICT", message: "a refresh is in progress" });
      expect(elsewhere.status).to.equal(200);
      expect((await first).body).to.deep.equal({ updated: 1, evaluated: 1 });
      expect((await refresh()).status).to.equal(200);
    });
  });

  it("meets imports, checks and replacements at the same time without a failure", async () => {
    const keytabs = await Promise.all(Array.from({ length: 20 }, () => importOf([aes256, rc4])));
    const replacement = () => ({ keytab_data: newKeytab({ enctypes: [desMd5] }).toString("base64") });
    await setPolicy(["aes256-cts", "rc4-hmac"]);

    const [answers] = await Promise.all([
      Promise.all([
        refresh(),
        ...keytabs.map(({ id }) => check(id)),
        ...keytabs.map(({ id }) => admin.rest("PUT", `/api/v1/keytabs/${id}`, replacement())),
      ]),
      ...keytabs.map(() => importOf([aes256])),
    ]);

    expect(answers.map(({ status }) => status)).to.deep.equal(answers.map(() => 200));
    const { body } = await admin.rest("GET", "/api/v1/keytabs?limit=100");
    const verdicts = body.data.map((each: { encryption_types: string[]; cipher_compliance: string }) => [
      each.encryption_types.join(),
      each.cipher_compliance,
    ]);
    expect(verdicts).to.have.length(40);
    for (const [types, verdict] of verdicts) {
      expect(verdict).to.equal(types === "des-cbc-md5" ? "non_compliant" : "compliant");
    }
  });

  it("answers the same over gRPC", async () => {
    const grpc = admin.grpc(KeytabService);
    try {
      const { id } = await importOf([desMd5]);
      await setPolicy(["des-cbc-md5"], ["des-cbc-md5"]);

      const refreshed = await grpc.refreshKeytabCompliance({}, admin.metadata());
      const checked = await grpc.checkKeytabCompliance({ id }, admin.metadata());

      expect(refreshed).to.include({ updated: 1, evaluated: 1 });
      expect(checked.cipherCompliance).to.equal("warning");
      expect({ ...checked.cipherViolations }).to.deep.equal({ "des-cbc-md5": isDeprecated });
    } finally {
      grpc.close();
    }
  });
});
