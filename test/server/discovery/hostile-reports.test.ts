import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Found } from "../../harness/host.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { fieldsAtFault, hashOf, recordOf, someFile, someFiles } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
let host: Host;
beforeEach(async () => {
  host = await Host.enroll(server);
});
afterEach(() => host.close());

const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);

describe("A report that is longer than a report may be", () => {
  // Each takes two bytes of a message, and hundreds of them once it was read and judged.
  const lists: Record<string, { keytabs?: Found[]; roots?: string[]; errors?: object[] }> = {
    keytabs: { keytabs: many(1_000_000, {}) },
    roots: { roots: many(1_000_000, "") },
    errors: { errors: many(1_000_000, {}) },
    "keytabs[0].encryption_types": { keytabs: [someFile("/etc/a", { encryptionTypes: many(1_000_000, "") })] },
  };
  for (const [field, report] of Object.entries(lists)) {
    it(`is refused for its ${field}, and for nothing in there`, async () => {
      const request = { scanId: randomUUID(), ...report };

      expect(await fieldsAtFault(host.reports.reportKeytabs(request, host.client.metadata()))).to.deep.equal([field]);
    });
  }

  it("is refused in JSON as well", async () => {
    const reported = { scan_id: randomUUID(), keytabs: many(500_000, 1) };
    const path = "/holdfast.discovery.v1.KeytabReportService/ReportKeytabs";

    const { status, body } = await host.client.rest("POST", path, reported);

    expect(status).to.equal(400);
    expect(body.details[1].debug.field_violations).to.deep.equal([
      { field: "keytabs", description: "must contain no more than 5000 item(s)", reason: "" },
    ]);
  });

  it("is told the first of its faults, where it may have a million", async () => {
    const keytabs = many(3000, someFile("/etc/a", { encryptionTypes: many(350, "") }));
    const request = { scanId: randomUUID(), keytabs };

    const fields = await fieldsAtFault(host.reports.reportKeytabs(request, host.client.metadata()));

    expect(fields).to.deep.equal(["keytabs[0].encryption_types[0]"]);
  });

  it("is told every fault as long as it is short", async () => {
    const keytabs = [someFile("etc", { fileOwner: "" }), someFile("/etc/b", { keytabHash: "x" })];
    const request = { scanId: randomUUID(), keytabs };

    const fields = await fieldsAtFault(host.reports.reportKeytabs(request, host.client.metadata()));

    expect(fields).to.deep.equal(["keytabs[0].file_path", "keytabs[0].file_owner", "keytabs[1].keytab_hash"]);
  });
});

describe("A scan of a host with many files and many places that it could not read", () => {
  it("is complete all the same", async () => {
    const places = Array.from({ length: 1000 }, (_, index) => ({
      path: `/home/user${index}/private`,
      reason: "EACCES",
    }));
    const roots = places.map(({ path }) => path.replace("private", "public"));
    for (const folder of ["/home/user7/private", "/home/user7/public"])
      await host.report(someFiles(5000, folder), { complete: false });

    const { stale } = await host.report([], { errors: places, roots });

    expect(stale).to.equal(5000);
  });
});

describe("An agent that claims the bytes of a managed keytab", () => {
  it("changes nothing of the keytab, whatever it says, and cannot send them", async () => {
    const managed = await importKeytab(server.admin);
    const own = newKeytab({ principal: "HTTP/evil", kvno: 9 });
    await host.report([someFile("/etc/a", { keytabHash: managed.keytab_hash })]);
    await host.report([foundKeytab("/etc/a", own)]);

    expect((await server.admin.rest("GET", `/api/v1/keytabs/${managed.id}`)).body).to.deep.equal(managed);
    expect((await server.admin.rest("GET", `/api/v1/keytabs/${managed.id}/history`)).body).to.have.length(1);
    expect(await recordOf(server.admin, host)).to.include({ drifted: true, managed_keytab_id: managed.id });
  });

  it("does not pass its own for them unseen: the record of a resync says whose keys were there before", async () => {
    const managed = await importKeytab(server.admin, newKeytab({ kvno: 7 }));
    const own = newKeytab({ principal: "HTTP/evil", kvno: 1 });
    await host.report([someFile("/etc/a", { keytabHash: managed.keytab_hash })]);
    await host.report([foundKeytab("/etc/a", own)]);
    host.answerUploads(new Map([["/etc/a", own]]));
    const { id } = await recordOf(server.admin, host);

    const { status } = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/resync`, {});

    expect(status).to.equal(200);
    const [{ details }] = await server.sql(
      "select details from audit_event where action = 'keytab.update' and resource_id = $1",
      [managed.id],
    );
    expect(JSON.parse(details)).to.include({
      principal: "HTTP/evil@EXAMPLE.COM",
      principal_before: managed.principal,
      kvno: 1,
      kvno_before: 7,
      agent_id: host.id,
      file_path: "/etc/a",
    });
  });

  it("is not believed when it sends other bytes under that hash", async () => {
    const claimed = newKeytab();
    await host.report([someFile("/etc/a", { keytabHash: hashOf(claimed) })]);
    const { id } = await recordOf(server.admin, host);
    const watch = host.watch();
    const importing = server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    for await (const { kind } of watch) {
      if (kind.case !== "uploadKeytab") continue;
      await host.upload(kind.value.requestId, { case: "keytabData", value: newKeytab() });
      break;
    }

    expect((await importing).status).to.equal(409);
  });
});

describe("The same file in another organization", () => {
  it("that is managed there does not keep it from being imported here, nor from being reported", async () => {
    const other = await server.otherOrganization();
    const bytes = newKeytab();
    const theirs = await importKeytab(other.admin, bytes);
    await host.report([foundKeytab("/etc/a", bytes)]);
    host.answerUploads(new Map([["/etc/a", bytes]]));
    const { id } = await recordOf(server.admin, host);

    const { status, body } = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    const again = await host.report([foundKeytab("/etc/a", bytes)]);

    expect(status).to.equal(201);
    expect(body.id).to.not.equal(theirs.id);
    expect(again).to.include({ discovered: 0, changed: 0 });
    expect(await recordOf(server.admin, host)).to.include({ managed_keytab_id: body.id, drifted: false });
  });
});

describe("A file whose bytes were managed before, and are again", () => {
  it("belongs to the keytab that is not deleted", async () => {
    const bytes = newKeytab();
    const deleted = await importKeytab(server.admin, bytes);
    await server.admin.rest("DELETE", `/api/v1/keytabs/${deleted.id}`);
    const managed = await importKeytab(server.admin, bytes);

    await host.report([foundKeytab("/etc/a", bytes)]);

    expect(await recordOf(server.admin, host)).to.include({ state: "imported", managed_keytab_id: managed.id });
  });
});
