import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs";
const nobodys = { is_managed: false, managed_keytab_id: null, state: "discovered" };
const managedBy = (id: string) => ({ is_managed: true, managed_keytab_id: id, state: "imported" });

let web: Host;
let db: Host;
before(async () => {
  [web, db] = await Promise.all([Host.enroll(server), Host.enroll(server)]);
});
after(() => {
  web.close();
  db.close();
});

/** Reports a file of a host at a new path; answers how to read what is known of it. */
async function report(host: Host, file: Buffer, by: Client = server.admin) {
  const filePath = `/etc/${Math.random()}.keytab`;
  await host.report([foundKeytab(filePath, file)], { complete: false });
  return async () => {
    const { body } = await by.rest("GET", `${path}/discovered?agent_id=${host.id}&limit=100`);
    return body.data.find((each: { file_path: string }) => each.file_path === filePath);
  };
}

describe("Files on hosts that have the bytes of a keytab", () => {
  it("are managed by it from its import on, on whatever host, and others are not", async () => {
    const file = newKeytab();
    const [onWeb, onDb, other] = [await report(web, file), await report(db, file), await report(web, newKeytab())];

    const { id } = await importKeytab(server.admin, file);

    expect(await onWeb()).to.include(managedBy(id));
    expect(await onDb()).to.include(managedBy(id));
    expect(await other()).to.include(nobodys);
  });

  it("are no longer ignored once they are managed", async () => {
    const file = newKeytab();
    const read = await report(web, file);
    const { id: found } = await read();
    await server.admin.rest("POST", `${path}/discovered/${found}/ignore`, { reason: "not ours" });

    const { id } = await importKeytab(server.admin, file);
    const managed = await read();
    await server.admin.rest("DELETE", `${path}/${id}`);

    expect(managed).to.include({ ...managedBy(id), ignored_reason: null });
    expect(await read()).to.include({ ...nobodys, ignored_reason: null });
  });

  it("are managed by it from its replacement on, and those of the file before differ from it", async () => {
    const [before, after] = [newKeytab(), newKeytab()];
    const [readBefore, readAfter] = [await report(web, before), await report(web, after)];
    const { id } = await importKeytab(server.admin, before);

    await server.admin.rest("PUT", `${path}/${id}`, { keytab_data: after.toString("base64") });

    expect(await readAfter()).to.include({ ...managedBy(id), drifted: false });
    expect(await readBefore()).to.include({ ...managedBy(id), drifted: true });
  });

  it("are nobody's again when it is deleted, and of the keytab that is imported next with their bytes", async () => {
    const file = newKeytab();
    const read = await report(web, file);
    const { id: first } = await importKeytab(server.admin, file);
    await server.admin.rest("DELETE", `${path}/${first}`);
    const orphaned = await read();

    const { id: second } = await importKeytab(server.admin, file);

    expect(orphaned).to.include(nobodys);
    expect(await read()).to.include({ ...managedBy(second), drifted: false });
  });

  it("of another organization are left alone", async () => {
    const { admin } = await server.otherOrganization();
    const host = await Host.enroll(server, { by: admin });
    const file = newKeytab();
    const theirs = await report(host, file, admin);

    await importKeytab(server.admin, file);

    expect(await theirs()).to.include(nobodys);
    host.close();
  });
});
