import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { discovered, someFile } from "../discovery/files.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const afterMs = (ms: number) => new Date(Date.now() + ms).toISOString();
const past = "2020-01-01T00:00:00Z";

const read = async (by: Client) => (await by.rest("GET", "/api/v1/keytabs/dashboard")).body;
const importOf = (by: Client, enctypes: number[], fields = {}) => importKeytab(by, newKeytab({ enctypes }), fields);
const importUntil = (by: Client, expires_at: string, fields = {}) =>
  importKeytab(by, newKeytab(), { expires_at, ...fields });
const change = (by: Client, { id }: { id: string }, fields: object) => by.rest("PUT", `/api/v1/keytabs/${id}`, fields);
const nothing = { total: 0, active: 0, expiring_soon: 0, expired: 0, disabled: 0, non_compliant: 0, warning: 0 };
const noFindings = {
  world_readable: 0,
  group_readable: 0,
  wrong_owner: 0,
  shared_key: 0,
  old_kvnos: 0,
  kvno_behind: 0,
};

describe("GetKeytabDashboard", () => {
  const server = useServer({ KEYTAB_ENABLED: "true" });
  let admin: Client;
  let projectId: string;
  beforeEach(async () => {
    ({ admin, projectId } = await server.otherOrganization());
  });

  it("answers zeros and empty lists where there is nothing", async () => {
    const { status, body } = await admin.rest("GET", "/api/v1/keytabs/dashboard");

    expect(status).to.equal(200);
    expect(body).to.deep.equal({
      overview: nothing,
      cipher_distribution: [],
      expiring_keytabs: [],
      findings: noFindings,
    });
  });

  it("counts each keytab as active, expired or disabled, as it is at the instant", async () => {
    await importOf(admin, [18]);
    await importUntil(admin, afterMs(400 * dayMs));
    await importUntil(admin, afterMs(10 * dayMs));
    await importUntil(admin, past);
    await server.sql("update keytab set status = 'expired' where expires_at < now()");
    await importUntil(admin, past);
    await change(admin, await importOf(admin, [18]), { status: "disabled" });
    await change(admin, await importUntil(admin, afterMs(dayMs)), { status: "disabled" });
    const over = await importUntil(admin, afterMs(dayMs));
    await change(admin, over, { status: "disabled" });
    await change(admin, over, { expires_at: past });

    const { overview } = await read(admin);

    expect(overview).to.deep.equal({ ...nothing, total: 8, active: 3, expired: 2, disabled: 3, expiring_soon: 1 });
  });

  it("counts verdicts as they are kept, of keytabs in any state", async () => {
    await importOf(admin, [18]);
    await importOf(admin, [18, 23]);
    await importOf(admin, [3]);
    await importOf(admin, [3, 23], { expires_at: past });
    await change(admin, await importOf(admin, [16]), { status: "disabled" });
    const policy = { allowed_ciphers: ["camellia256-cts"], deprecated_ciphers: [], enforcement_mode: "warn" };
    await admin.rest("PUT", "/api/v1/keytabs/cipher-policy", policy);

    const { overview } = await read(admin);

    expect(overview).to.include({ total: 5, non_compliant: 3, warning: 1 });
  });

  it("counts the keytabs that hold each type, the most frequent first, and equals by name", async () => {
    await importOf(admin, [18, 17, 18]);
    await importOf(admin, [23, 18]);
    await importOf(admin, [18, 3], { expires_at: past });
    await importOf(admin, [17, 23, 999]);

    const { cipher_distribution } = await read(admin);

    expect(cipher_distribution).to.deep.equal([
      { cipher: "aes256-cts-hmac-sha1-96", count: 3 },
      { cipher: "aes128-cts-hmac-sha1-96", count: 2 },
      { cipher: "arcfour-hmac", count: 2 },
      { cipher: "des-cbc-md5", count: 1 },
      { cipher: "etype-999", count: 1 },
    ]);
  });

  it("lists the active keytabs that expire within 30 days, the soonest first, with the days rounded up", async () => {
    const later = await importUntil(admin, afterMs(29 * dayMs + hourMs), { name: "later" });
    const soon = await importUntil(admin, afterMs(hourMs), { name: "soon" });
    const tomorrow = await importUntil(admin, afterMs(dayMs + hourMs), { name: "tomorrow" });
    await importUntil(admin, afterMs(30 * dayMs + hourMs));
    await importUntil(admin, past);
    await change(admin, await importUntil(admin, afterMs(dayMs)), { status: "disabled" });

    const { overview, expiring_keytabs } = await read(admin);

    const expected = [soon, tomorrow, later].map(({ id, name, principal, expires_at }, n) => ({
      id,
      name,
      principal,
      expires_at,
      days_remaining: [1, 2, 30][n],
    }));
    expect(expiring_keytabs).to.deep.equal(expected);
    expect(overview.expiring_soon).to.equal(3);
  });

  it("lists 50 that expire soon, and counts all", async () => {
    const ends = Array.from({ length: 52 }, (_, n) => afterMs((52 - n) * hourMs));
    await Promise.all(ends.map((expires_at) => importUntil(admin, expires_at)));

    const { overview, expiring_keytabs } = await read(admin);

    expect(overview.expiring_soon).to.equal(52);
    expect(expiring_keytabs.map((each: { expires_at: string }) => each.expires_at)).to.deep.equal(
      ends.reverse().slice(0, 50),
    );
  });

  it("leaves out deleted keytabs and those of other organizations", async () => {
    const { id } = await importUntil(admin, afterMs(dayMs));
    await admin.rest("DELETE", `/api/v1/keytabs/${id}`);
    await importUntil(server.admin, afterMs(dayMs));

    const { overview, cipher_distribution, expiring_keytabs } = await read(admin);

    expect({ overview, cipher_distribution, expiring_keytabs }).to.deep.equal({
      overview: nothing,
      cipher_distribution: [],
      expiring_keytabs: [],
    });
  });

  it("is for those who may read keytabs at the organization", async () => {
    const viewer = await server.as("dashboard-viewer", ["viewer"], admin);
    const agent = await server.as("dashboard-agent", ["agent"], admin);
    const ofProject = await server.as(
      "dashboard-project",
      { projectRoles: [{ project_id: projectId, role: "viewer" }] },
      admin,
    );
    const statusFor = async (by: Client) => (await by.rest("GET", "/api/v1/keytabs/dashboard")).status;

    expect([await statusFor(viewer), await statusFor(agent), await statusFor(ofProject)]).to.deep.equal([
      200, 403, 403,
    ]);
  });

  it("answers the same over gRPC", async () => {
    const grpc = admin.grpc(KeytabService);
    try {
      await importUntil(admin, afterMs(dayMs - hourMs));

      const { overview, expiringKeytabs, findings } = await grpc.getKeytabDashboard({}, admin.metadata());

      expect(overview).to.include({ total: 1, active: 1, expiringSoon: 1 });
      expect(expiringKeytabs[0]?.daysRemaining).to.equal(1);
      expect(findings?.sharedKey).to.equal(0);
    } finally {
      grpc.close();
    }
  });

  describe("on findings", () => {
    const hosts: Host[] = [];
    afterEach(() => {
      for (const host of hosts.splice(0)) host.close();
    });

    async function enroll(by = admin): Promise<Host> {
      const host = await Host.enroll(server, { by });
      hosts.push(host);
      return host;
    }

    /** A file with the keys that keytabs of tests have. */
    const fileOf = (filePath: string, kvno: number, fields = {}) =>
      someFile(filePath, { principal: "HTTP/web.example.com@EXAMPLE.COM", kvnos: [kvno], ...fields });
    const findings = async () => (await read(admin)).findings;
    /** How many records of files show each finding. */
    const shown = async () => {
      const counts: Record<string, number> = { ...noFindings };
      for (const { state, findings } of await discovered(admin)) {
        if (state !== "stale") for (const finding of findings) counts[finding] = (counts[finding] ?? 0) + 1;
      }
      return counts;
    };

    it("counts what is to be seen in a file by itself", async () => {
      const host = await enroll();
      await host.report([
        someFile("/etc/1", { filePermissions: "0644" }),
        someFile("/etc/2", { filePermissions: "0640" }),
        someFile("/etc/3", { fileOwner: "1001:root" }),
        someFile("/etc/4", { kvnos: [7, 8, 9] }),
        someFile("/etc/5"),
      ]);

      expect(await findings()).to.deep.equal({
        ...noFindings,
        world_readable: 1,
        group_readable: 2,
        wrong_owner: 1,
        old_kvnos: 1,
      });
      expect(await shown()).to.deep.equal(await findings());
    });

    it("counts files whose bytes are on another host too, and not copies on the same host", async () => {
      const [web1, web2] = [await enroll(), await enroll()];
      const shared = someFile("/etc/shared");
      const copied = someFile("/etc/copied");
      await web1.report([shared, copied, { ...copied, filePath: "/etc/copy" }, { ...shared, filePath: "/etc/again" }]);
      await web2.report([shared, someFile("/etc/own")]);

      expect(await findings()).to.deep.equal({ ...noFindings, shared_key: 3 });
      expect(await shown()).to.deep.equal(await findings());
    });

    it("counts files whose principal has a higher kvno in another file", async () => {
      const [web1, web2] = [await enroll(), await enroll()];
      await web1.report([fileOf("/etc/a", 3), fileOf("/etc/b", 3, { kvnos: [3, 4] })]);
      await web2.report([
        fileOf("/etc/a", 4),
        fileOf("/etc/c", 1, { principal: "HTTP/web.example.com@OTHER.REALM" }),
        fileOf("/etc/d", 5, { principal: "http/web.example.com@EXAMPLE.COM" }),
      ]);

      expect(await findings()).to.deep.equal({ ...noFindings, kvno_behind: 1 });
      expect(await shown()).to.deep.equal(await findings());
    });

    it("counts files whose principal has a higher kvno in a managed keytab", async () => {
      const host = await enroll();
      await host.report([fileOf("/etc/a", 3), fileOf("/etc/b", 5)]);
      const { id } = await importKeytab(admin, newKeytab({ kvno: 5 }));
      expect(await findings()).to.deep.equal({ ...noFindings, kvno_behind: 1 });
      await importKeytab(server.admin, newKeytab({ kvno: 9 }));
      expect(await findings()).to.deep.equal({ ...noFindings, kvno_behind: 1 });

      await change(admin, { id }, { keytab_data: newKeytab({ kvno: 6 }).toString("base64") });
      expect(await findings()).to.deep.equal({ ...noFindings, kvno_behind: 2 });
      expect(await shown()).to.deep.equal(await findings());

      await admin.rest("DELETE", `/api/v1/keytabs/${id}`);
      expect(await findings()).to.deep.equal({ ...noFindings, kvno_behind: 1 });
    });

    it("counts the principal of any length, and a kvno of 32 bits", async () => {
      const principal = `HTTP/${randomBytes(4000).toString("hex")}@EXAMPLE.COM`;
      const host = await enroll();
      await host.report([
        fileOf("/etc/a", 4_294_967_294, { principal }),
        fileOf("/etc/b", 4_294_967_295, { principal }),
      ]);

      expect(await findings()).to.deep.equal({ ...noFindings, kvno_behind: 1 });
    });

    it("leaves out files that are gone, also as those that others are compared with", async () => {
      const [web1, web2] = [await enroll(), await enroll()];
      const shared = fileOf("/etc/shared", 1, { filePermissions: "0644" });
      await web1.report([shared]);
      await web2.report([shared, fileOf("/etc/newer", 2)]);
      const all = { ...noFindings, world_readable: 2, group_readable: 2, shared_key: 2, kvno_behind: 2 };
      expect(await findings()).to.deep.equal(all);

      await web2.report([]);

      expect(await findings()).to.deep.equal({ ...noFindings, world_readable: 1, group_readable: 1 });
    });

    it("knows nothing of the hosts of other organizations", async () => {
      const [ours, theirs] = [await enroll(), await enroll(server.admin)];
      const shared = fileOf("/etc/shared", 1);
      await ours.report([shared]);
      await theirs.report([shared, fileOf("/etc/newer", 2, { filePermissions: "0777" })]);

      expect(await findings()).to.deep.equal(noFindings);
    });
  });
});

describe("With SERVICE_KEYTAB_EXPIRING_DAYS, the dashboard", () => {
  const server = useServer({ KEYTAB_ENABLED: "true", KEYTAB_EXPIRING_DAYS: "7" });

  it("calls soon what the installation does", async () => {
    await importUntil(server.admin, afterMs(8 * dayMs));
    const { id } = await importUntil(server.admin, afterMs(6 * dayMs));

    const { overview, expiring_keytabs } = await read(server.admin);

    expect(overview.expiring_soon).to.equal(1);
    expect(expiring_keytabs.map((each: { id: string }) => each.id)).to.deep.equal([id]);
  });
});
